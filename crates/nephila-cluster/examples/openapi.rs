//! Prints the OpenAPI document of a kind of server: `cluster`, `single` or `archive`.
//!
//!     cargo run -p nephila-cluster --example openapi -- cluster > openapi.json

use std::io::Write as _;

use nephila_api::web::ReadOnly;
use nephila_api::{Access, Answers, Questions, Reply};
use nephila_cluster::api::Api;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let document = match std::env::args().nth(1).as_deref() {
        Some("cluster") => <Api as Answers>::routes().document(Access::Either),
        Some("single") => <Questions as Answers>::routes().document(Access::Either),
        Some("archive") => <ReadOnly as Answers>::routes().document(Access::Either),
        _ => anyhow::bail!("name a kind of server: cluster, single or archive"),
    };
    let body = Reply::of(document).await.body;
    std::io::stdout().write_all(&body)?;
    Ok(())
}
