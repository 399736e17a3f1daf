//! The hostile catalogue against the spider: one test per case and promise, named by the case's id.
//! `cargo xtask hostile` prints the table. Cases that need a whole command are in `crates/nephila/tests/e2e`.

mod measure;
mod namespace;
mod support;

mod compression;
mod dns;
mod dns_addresses;
mod encoding;
mod http1_body;
mod http1_fields;
mod http1_head;
mod http2;
mod proxy;
mod redirect;
mod ssrf;
mod tcp;
mod tls;
mod urls;
mod work;
