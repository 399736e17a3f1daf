//! URLs as people type them.

use nephila_core::spider::door::is_local_name;
use nephila_core::url::CrawlUrl;

/// Adds a scheme to `example.org`, as people write a site.
pub fn with_scheme(text: &str) -> String {
    match text.contains("://") || names_a_scheme(text) {
        true => text.to_owned(),
        false if is_local_name(text.split([':', '/']).next().unwrap_or_default()) => format!("http://{text}"),
        false => format!("https://{text}"),
    }
}

/// Whether a text begins with a scheme, `mailto:` or a typo such as `htp:/foo`. A host may have a port behind its
/// colon, or a name and a password before its `@`.
pub fn names_a_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-".contains(c));
    let has_port = !authority.is_empty() && authority.bytes().all(|byte| byte.is_ascii_digit());
    let has_user = authority.contains('@') && !scheme.eq_ignore_ascii_case("mailto");
    is_scheme && !has_port && !has_user
}

/// The URLs among typed arguments; `-` is a list.
pub fn typed<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<CrawlUrl> {
    let texts = texts.into_iter().filter(|text| *text != "-");
    texts.filter_map(|text| CrawlUrl::parse(&with_scheme(text.trim())).ok()).collect()
}
