//! Follows every link, as fast as the `spider` crate can, and keeps nothing.

use spider::tokio;
use spider::website::Website;

#[tokio::main]
async fn main() {
    let home = std::env::args().nth(1).expect("the URL of the home page");
    let mut website = Website::new(&home);
    website
        .with_respect_robots_txt(true)
        .with_delay(0)
        .with_retry(0)
        .with_user_agent(Some("spider"))
        .with_concurrency_limit(Some(64))
        // Any other host is part of the crawl too.
        .with_external_domains(Some(std::iter::once("*".to_owned())))
        // The crate has no setting for one more authority to trust.
        .with_danger_accept_invalid_certs(true);
    website.crawl().await;
    println!("visited {}", website.get_size().await);
}
