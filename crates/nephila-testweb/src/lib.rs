//! A synthetic internet on loopback, for tests and measurements only.
//!
//! The good half is one function of one seed. [`model::World`] gives the content of a URL at a virtual time, without
//! storing a page: hosts whose sizes follow a power law, links of which 79 in 100 stay in their domain, duplicates,
//! redirects, errors, robots.txt in all variants, sitemaps, feeds. [`render`] turns that into bytes, [`server`] and
//! [`dns`] serve these on addresses of 127.0.0.0/8 and ::1 with certificates of an own authority ([`tls`]), and [`Web`]
//! ties everything together:
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use nephila_testweb::{Settings, Web};
//!
//! let web = Web::builder().settings(Settings { hosts: 50, pages: 10_000, ..Settings::mixed() }).start().await?;
//! println!("crawl {} with DNS at {}", web.urls().next().unwrap(), web.dns_addr());
//! // … let a crawler loose, then judge it from the server's side:
//! let report = nephila_testweb::check::Repeats::default().check(&web.journal().log());
//! assert!(report.is_clean(), "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! The [`journal`] records the requests to a web; [`check`] judges a journal: politeness, robots.txt, repeats, and
//! completeness against the ground truth of the model. The other half, [`hostile`], misbehaves on purpose. [`bombs`]
//! are answers that cost a reader much CPU time, and [`work`] judges how much.
//!
//! Invariants: this crate knows no crawler, so a judge cannot share its subject's mistakes; nothing listens outside of
//! loopback; the same seed, URL and virtual time give the same bytes.

pub mod bombs;
pub mod hostile;

pub mod check;
pub mod dns;
pub mod journal;
pub mod model;
pub mod proxy;
pub mod render;
pub mod rules;
pub mod server;
pub mod settings;
pub mod tls;
mod web;
pub mod work;

pub use settings::Settings;
pub use web::{Builder, RunningWeb, Web};
