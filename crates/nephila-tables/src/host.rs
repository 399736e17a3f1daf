//! The columns about the host of a URL, as Common Crawl's `HostName` computes them.
//!
//! A suffix that the public suffix list does not know gives no domain, and an address gives no parts.

use std::net::IpAddr;

use nephila_core::url::public_suffix;

use crate::capture::CaptureRow;

/// Fills the columns about a host.
pub fn fill(row: &mut CaptureRow, host: &str) {
    row.url_host_name = host.to_owned();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || bare.parse::<IpAddr>().is_ok() {
        return;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let mut parts = name.rsplit('.').map(str::to_owned);
    row.url_host_tld = parts.next();
    row.url_host_2nd_last_part = parts.next();
    row.url_host_3rd_last_part = parts.next();
    row.url_host_4th_last_part = parts.next();
    row.url_host_5th_last_part = parts.next();
    row.url_host_name_reversed = Some(name.rsplit('.').collect::<Vec<_>>().join("."));
    let Some((suffix, is_registry)) = public_suffix(name) else { return };
    row.url_host_private_suffix = Some(suffix.to_owned());
    row.url_host_private_domain = below(name, suffix).map(str::to_owned);
    if let Some(registry) = registry_suffix(suffix, is_registry) {
        row.url_host_registry_suffix = Some(registry.to_owned());
        row.url_host_registered_domain = below(name, registry).map(str::to_owned);
    }
}

/// The suffix of the registry within a suffix.
fn registry_suffix(mut found: &str, mut is_registry: bool) -> Option<&str> {
    while !is_registry {
        let (_, rest) = found.split_once('.')?;
        (found, is_registry) = public_suffix(rest)?;
    }
    Some(found)
}

/// The domain one level below a suffix.
fn below<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let rest = name.strip_suffix(suffix)?.strip_suffix('.')?;
    let start = rest.rfind('.').map_or(0, |dot| dot + 1);
    Some(&name[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, wanted: [&str; 6]) {
        let mut row = CaptureRow::default();
        fill(&mut row, host);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let found = [
            text(&row.url_host_tld),
            text(&row.url_host_registry_suffix),
            text(&row.url_host_registered_domain),
            text(&row.url_host_private_suffix),
            text(&row.url_host_private_domain),
            text(&row.url_host_name_reversed),
        ];
        assert_eq!(found, wanted, "{host}");
    }

    #[test]
    fn hosts_have_the_parts_that_common_crawl_gives_them() {
        check("www.example.com", ["com", "com", "example.com", "com", "example.com", "com.example.www"]);
        check("www.bbc.co.uk", ["uk", "co.uk", "bbc.co.uk", "co.uk", "bbc.co.uk", "uk.co.bbc.www"]);
        check(
            "b.s3.amazonaws.com",
            ["com", "com", "amazonaws.com", "s3.amazonaws.com", "b.s3.amazonaws.com", "com.amazonaws.s3.b"],
        );
        check(
            "my.blogspot.com",
            ["com", "com", "blogspot.com", "blogspot.com", "my.blogspot.com", "com.blogspot.my"],
        );
        check("co.uk", ["uk", "co.uk", "", "co.uk", "", "uk.co"]);
        check("a.test", ["test", "", "", "", "", "test.a"]);
        check("127.0.0.1", [""; 6]);
        check("[::1]", [""; 6]);
        check("localhost", ["localhost", "", "", "", "", "localhost"]);
    }
}
