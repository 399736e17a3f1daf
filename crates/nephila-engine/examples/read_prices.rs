//! Replaces `Read`: extracts prices beside the links, and stores them with each page.
//!
//!     cargo run -p nephila-engine --example read_prices

mod site;

use std::sync::{Arc, Mutex};

use anyhow::ensure;
use nephila_engine::stage::{Read, StandardReader};
use nephila_engine::{Crawl, Findings, Page, handler};

/// The start of a price in the pages of the shop.
const PRICE: &str = r#"class="price">"#;

/// The standard reader, and prices as notes.
struct Prices;

impl Read for Prices {
    fn read(
        &self,
        page: &Page<'_>,
        limits: &handler::Limits,
        time_is_up: &mut dyn FnMut() -> bool,
    ) -> Findings {
        let mut findings = StandardReader.read(page, limits, time_is_up);
        let text = String::from_utf8_lossy(page.body);
        let prices = text.split(PRICE).skip(1).filter_map(|rest| rest.split('<').next());
        findings.notes.extend(prices.map(|price| ("price", price.to_owned())));
        findings
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = site::start()?;
    let prices = Arc::new(Mutex::new(Vec::new()));
    let found = prices.clone();
    let crawl = Crawl::builder().seed(&url).allow_private_seeds().settings(site::settings()).read(Prices);
    let summary = crawl
        .on_page(move |page| {
            let notes = page.findings.iter().flat_map(|findings| &findings.notes);
            let prices = notes.map(|(_, price)| format!("{}: {price}", page.title()));
            found.lock().expect("no thread panics with the lock").extend(prices);
        })
        .run()
        .await?;

    let mut prices = prices.lock().expect("no thread panics with the lock").clone();
    prices.sort();
    println!("{} pages, {}", summary.pages, prices.join(", "));
    ensure!(prices == ["Cups: 18.00 EUR", "Tea: 4.20 EUR"], "both prices are found");
    Ok(())
}
