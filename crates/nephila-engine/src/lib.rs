//! The crawler as a library: a polite crawl of one machine inside another program.
//!
//! A crawl begins with seeds. The frontier decides which URL is requested next and when, so that robots.txt, crawl
//! delays and connection limits hold across hosts, addresses and restarts. Each page then passes five stages, and each
//! stage is a trait with a standard implementation that a program can replace:
//!
//! ```text
//!              ┌──────────────────────────── links, durable ◄──── PassOn ◄──┐
//!              ▼                                                            │
//! seeds ──► frontier ──► Fetch ──────────► Read ──► scope of the job ───────┤
//!              ▲         request, answer   links, title, notes              │
//!              │           │                                                │
//!              │           └─────────────► Keep ──► WARC, durable ──────────┤
//!              └─────────── outcome, reported last ◄────────────────────────┘
//!                                        Observe sees decisions and pages
//! ```
//!
//! The outcome of a page is reported after its capture and its links are durable. A crawl that is killed at any moment
//! goes on where it was, and loses nothing.
//!
//! # A crawl in ten lines
//!
//! ```
//! # #[path = "../examples/site/mod.rs"]
//! # mod site;
//! use nephila_engine::Crawl;
//!
//! # #[tokio::main]
//! # async fn main() -> anyhow::Result<()> {
//! # let url = site::start()?;
//! let summary = Crawl::builder()
//!     .seed(&url)
//!     .contact("https://you.example/bot")
//! #   .allow_private_seeds()
//! #   .settings(site::settings())
//!     .on_page(|page| println!("{} {}", page.url, page.title()))
//!     .run()
//!     .await?;
//! assert_eq!(summary.pages, 4);
//! # Ok(())
//! # }
//! ```
//!
//! With [`Builder::folder`] the pages are archived as WARC and the state survives the process. The folder is the one of
//! `nephila crawl -o DIR`: every command of the program works on it.
//!
//! # Own stages
//!
//! [`stage`] has the traits. Three programs in `examples/` replace one each: `fetch_from_archive` serves requests from
//! an archive instead of the network, `keep_in_sqlite` stores pages in a database, `read_prices` extracts prices.
//!
//! # Features
//!
//! - `text`: the main text of pages (`handler.text`), stored beside each page.
//!
//! # Modules
//!
//! [`library`], [`stage`] and [`settings`] are the interface for other programs. The other modules are shared with the
//! crates of the program (`nephila`, `nephila-api`, `nephila-cluster`) and may change with every version.

#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod crawl;
#[doc(hidden)]
pub mod credentials;
pub mod exit;
#[doc(hidden)]
pub mod folder;
#[doc(hidden)]
pub mod human;
#[doc(hidden)]
pub mod identity;
#[doc(hidden)]
pub mod introduce;
pub mod library;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod reach;
#[doc(hidden)]
pub mod remote;
#[doc(hidden)]
pub mod service;
pub mod settings;
#[doc(hidden)]
pub mod stop_list;
#[doc(hidden)]
pub mod traces;
#[doc(hidden)]
pub mod wire;
#[doc(hidden)]
pub mod worker;

pub use crawl::stage;
pub use library::{Builder, Crawl, Summary};
pub use settings::Settings;

// The types that stages take and return, so that a program needs no other crate of ours.
pub use futures_util::future::BoxFuture;
pub use nephila_core::handler::{self, Findings, Page};
pub use nephila_core::job::{self, Limits};
pub use nephila_core::spider::Outcome;
pub use nephila_core::store::{Exchange, Payload};
pub use nephila_core::url::CrawlUrl;
pub use nephila_spider::{Fetched, Request};
pub use nephila_store::archive::Receipt;
pub use nephila_store::captures::{Capture, Captures};
