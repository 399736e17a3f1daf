//! Replaces `Keep`: stores every page in an SQLite database instead of WARC files.
//!
//!     cargo run -p nephila-engine --example keep_in_sqlite

mod site;

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::ensure;
use nephila_engine::stage::{Keep, NotKept};
use nephila_engine::{BoxFuture, Crawl, Exchange, Receipt};
use rusqlite::Connection;

/// A table of pages. A page is durable when its transaction is.
#[derive(Clone)]
struct Table(Arc<Mutex<Connection>>);

impl Table {
    fn open(path: &Path) -> anyhow::Result<Table> {
        let connection = Connection::open(path)?;
        connection.execute("CREATE TABLE page (url TEXT, fetched TEXT, outcome TEXT, body BLOB)", ())?;
        Ok(Table(Arc::new(Mutex::new(connection))))
    }

    fn insert(&self, exchange: &Exchange) -> anyhow::Result<Receipt> {
        let mut body = Vec::new();
        exchange.body.reader()?.read_to_end(&mut body)?;
        let outcome = exchange.notes.get("outcome");
        let connection = self.0.lock().expect("no thread panics with the lock");
        connection.execute(
            "INSERT INTO page VALUES (?1, ?2, ?3, ?4)",
            (&exchange.url, exchange.started.warc_date(), outcome, &body),
        )?;
        Ok(Receipt::elsewhere("pages.sqlite", &body))
    }
}

impl Keep for Table {
    fn keep(&self, exchange: Exchange) -> BoxFuture<'_, Result<Receipt, NotKept>> {
        let kept = tokio::task::block_in_place(|| self.insert(&exchange));
        Box::pin(std::future::ready(kept.map_err(NotKept::Failed)))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (url, dir) = (site::start()?, tempfile::tempdir()?);
    let table = Table::open(&dir.path().join("pages.sqlite"))?;
    let crawl = Crawl::builder().seed(&url).allow_private_seeds().settings(site::settings());
    let summary = crawl.keep(table.clone()).run().await?;

    let connection = table.0.lock().expect("no thread panics with the lock");
    let count = "SELECT count(*), sum(length(body)) FROM page WHERE url NOT LIKE '%/robots.txt'";
    let (rows, bytes): (u64, u64) = connection.query_row(count, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    println!("{} pages fetched, {rows} rows with {bytes} bytes in the table", summary.pages);
    ensure!((rows, bytes) == (summary.pages, summary.bytes), "every page is a row");
    Ok(())
}
