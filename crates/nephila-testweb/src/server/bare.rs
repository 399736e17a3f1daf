//! The bare server: the least a hyper server can do, as a measure for the web.
//!
//! Answers every request with the same bytes, parses nothing and records nothing.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::{Response, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

/// Listens on 127.0.0.1 and returns the port and the server, which runs as long as the future is polled.
pub fn serve_bare(port: u16, page_bytes: usize) -> anyhow::Result<(u16, impl Future<Output = ()>)> {
    let listener = super::listen::listen(IpAddr::V4(Ipv4Addr::LOCALHOST), port, false)?;
    let port = listener.local_addr()?.port();
    let page = Bytes::from("a fixed page. ".repeat(page_bytes / 14 + 1)).slice(..page_bytes);
    let server = async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(super::ACCEPT_REST).await;
                continue;
            };
            stream.set_nodelay(true).ok();
            let page = page.clone();
            let service = service_fn(move |_request| {
                let mut response = Response::new(Full::new(page.clone()));
                let kind = header::HeaderValue::from_static("text/html; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(async move {
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    };
    Ok((port, server))
}
