//! A stored answer as its sender meant it: the content codings undone.

use anyhow::Context;
use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use nephila_core::spider::coding::{Codings, TooMany};
use nephila_core::store::head;
use nephila_spider::decode;
use nephila_store::captures::Capture;

/// Maximum number of nested content codings.
pub const CODINGS_MAX: usize = 8;

/// Decodes the content codings of a body, up to `bytes_max` bytes.
pub fn decoded(http: &[u8], stored: &[u8], bytes_max: u64) -> anyhow::Result<(Vec<u8>, decode::Note)> {
    let fields: Vec<String> = head_fields(http, "content-encoding");
    let codings = match Codings::parse(fields.iter().map(|field| field.as_bytes()), CODINGS_MAX) {
        Ok(codings) => codings,
        Err(TooMany) => anyhow::bail!("more than {CODINGS_MAX} codings: --raw prints it as it is stored"),
    };
    let mut body = Vec::new();
    let go_on = || decode::Stop::GoOn;
    let decoded = decode::decode(&codings, || Ok(Box::new(stored)), bytes_max, &go_on, &mut body)?;
    Ok((body, decoded.note))
}

/// The response in a capture, with its content codings undone: at most `bytes_max` bytes.
pub fn response(capture: &Capture, bytes_max: u64) -> anyhow::Result<Response<Bytes>> {
    let made = capture.header.get("Content-Type").filter(|_| capture.http.is_empty()).map(head::of_resource);
    let http = made.as_ref().unwrap_or(&capture.http);
    let (body, _) = decoded(http, &capture.body, bytes_max)?;
    let head = String::from_utf8_lossy(http);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("a status line")?;
    let mut response = Response::builder().status(status).body(Bytes::from(body))?;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let field = (name.trim().parse::<HeaderName>(), HeaderValue::from_str(value.trim()));
        if let (Ok(name), Ok(value)) = field
            && ![CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name)
        {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// The values of all header fields with this name.
pub fn head_fields(http: &[u8], wanted: &str) -> Vec<String> {
    let field = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b':')?;
        line[..at]
            .trim_ascii()
            .eq_ignore_ascii_case(wanted.as_bytes())
            .then(|| line[at + 1..].trim_ascii().iter().map(|byte| char::from(*byte)).collect::<String>())
    };
    http.split(|byte| *byte == b'\n').skip(1).filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_of_a_name_are_found() {
        let http = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\ncontent-encoding : br\r\nX: y\r\n\r\n";
        assert_eq!(head_fields(http, "content-encoding"), ["gzip", "br"]);
        assert!(head_fields(b"", "x").is_empty());
    }
}
