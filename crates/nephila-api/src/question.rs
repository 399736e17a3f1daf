//! A request as the operations of the API see it: method, path, parameters, header fields and the complete body.

use std::string::FromUtf8Error;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::header::HeaderMap;
use serde::de::DeserializeOwned;

use super::guard::Asker;
use super::hub::Hub;

/// Header field of a request that another node has forwarded: `owner` or `archive`.
pub const FORWARDED: &str = "nephila-forwarded";

/// A request with its complete body.
#[derive(Debug)]
pub struct HttpQuestion {
    /// HTTP method of the request.
    pub method: Method,
    /// Path and query, as received.
    pub target: String,
    /// Path of the target, without the query.
    pub path: String,
    query: String,
    /// Header fields of the request.
    pub headers: HeaderMap,
    /// Complete body of the request; empty for a request without a body.
    pub body: Bytes,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// Values of the path's template, decoded.
    pub(crate) parts: Vec<(&'static str, String)>,
    /// The client; none for a question of our own.
    pub(crate) asker: Option<Arc<Asker>>,
    /// What the client can follow, and who else does.
    pub(crate) hub: Option<Arc<Hub>>,
}

impl HttpQuestion {
    /// A request without a body.
    pub fn new(method: Method, target: &str, headers: HeaderMap, is_tls: bool) -> HttpQuestion {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        HttpQuestion {
            method,
            target: target.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Bytes::new(),
            is_tls,
            parts: Vec::new(),
            asker: None,
            hub: None,
        }
    }

    /// The body, a JSON object; otherwise what is wrong. A list is none, though a list could name the fields by their order.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, String> {
        match self.body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => serde_json::from_slice(&self.body).map_err(|error| error.to_string()),
            _ => Err("the body is a JSON object".to_owned()),
        }
    }

    /// The value of a query parameter. A plus sign stays a plus sign: URLs contain plus signs.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    /// The values of a query parameter that may be repeated.
    pub fn parameters(&self, name: &str) -> Vec<String> {
        self.values(name).collect()
    }

    /// The value of a query parameter as a number. The table of operations refuses other texts before.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.parameter(name)?.parse().ok()
    }

    /// The value of a part of the path, by its name in the template; empty for a name that the template does not have.
    pub fn part(&self, name: &str) -> &str {
        self.parts.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }

    fn values(&self, name: &str) -> impl Iterator<Item = String> {
        self.encoded(name).map(unescaped)
    }

    /// The values of a query parameter, percent-encoded.
    fn encoded(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(move |(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The values of a query parameter; an error if one of them is not UTF-8.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, FromUtf8Error> {
        self.encoded(name).map(text_of).collect()
    }

    /// Whether the path is UTF-8.
    pub(crate) fn path_is_text(&self) -> Result<(), FromUtf8Error> {
        text_of(&self.path).map(|_| ())
    }

    /// A header field, if its value is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn text_of(encoded: &str) -> Result<String, FromUtf8Error> {
    String::from_utf8(nephila_core::url::percent_decode(encoded.as_bytes()))
}

/// Percent-decodes a text.
pub fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&nephila_core::url::percent_decode(text.as_bytes())).into_owned()
}

/// Percent-encodes a text as the value of a parameter.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_object_and_no_list_of_its_values() {
        let read = |body: &'static str| {
            let mut asked = HttpQuestion::new(Method::POST, "/", HeaderMap::new(), false);
            asked.body = Bytes::from_static(body.as_bytes());
            asked.object::<std::collections::BTreeMap<String, u8>>()
        };
        assert_eq!(read(" \r\n\t{\"a\": 1}").unwrap()["a"], 1);
        for wrong in ["", " ", "[]", "[1]", "null", "7", "\"a\"", "{", "{\"a\": 1} 2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
