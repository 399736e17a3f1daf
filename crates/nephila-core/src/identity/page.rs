//! The page that introduces the crawler: a site's operator finds the page behind the URL in our User-Agent.
//!
//! Invariants: the page has no script and loads nothing; all text of the crawler's operator is escaped.

use std::fmt::Write as _;
use std::time::Duration;

use crate::text::escaped;

/// The contents of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Our product token in robots.txt.
    pub agent: String,
    /// The whole User-Agent field.
    pub user_agent: String,
    /// How to reach us: a URL or a mail address.
    pub contact: String,
    /// The From field, if one is sent.
    pub from: String,
    /// The operator and the purpose of the crawler, in a sentence.
    pub purpose: String,
    /// The URL where our keys are published, if requests are signed.
    pub agent_url: String,
    /// The id of the signing key.
    pub keyid: String,
    /// The crawl delay: the rest of a host between two requests.
    pub delay: Duration,
    /// Maximum number of concurrent requests to one host.
    pub connections: u32,
    /// Whether robots.txt is obeyed.
    pub obeys_robots: bool,
    /// Addresses from which requests come, as ranges.
    pub ranges: Vec<String>,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44em;margin:2em auto;padding:0 1em;color:#222}\
h1{line-height:1.2}pre{background:#f4f4f4;padding:.8em;white-space:pre-wrap;overflow-wrap:anywhere}code{word-break:break-all}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#262626}a{color:#8bf}}";

/// Renders the page.
pub fn html(about: &About) -> String {
    let agent = escaped(&about.agent);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{agent}, a web crawler</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{agent}, a web crawler</h1>\n"
    );
    if !about.purpose.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escaped(&about.purpose));
    }
    let _ = writeln!(
        out,
        "<h2>How to reach us</h2>\n<p>{}. Tell us the name of your site and we stop at once; there is no need to say \
         why.</p>",
        link(&about.contact)
    );
    let _ = writeln!(
        out,
        "<h2>How to know us</h2>\n<p>Every request carries this field:</p>\n<pre>User-Agent: {}</pre>",
        escaped(&about.user_agent)
    );
    if !about.from.is_empty() {
        let _ = writeln!(out, "<pre>From: {}</pre>", escaped(&about.from));
    }
    if about.keyid.is_empty() {
        let _ = writeln!(
            out,
            "<p>Anybody can copy it. If you doubt that a request was ours, ask us with its time and URL.</p>"
        );
    } else {
        let _ = writeln!(
            out,
            "<p>Anybody can copy that, so our requests are signed (RFC 9421, tag <code>web-bot-auth</code>). The key \
             <code>{}</code> is published at <a href=\"{url}{path}\">{url}{path}</a>. A request that claims to be ours and \
             whose signature does not verify is not ours.</p>",
            escaped(&about.keyid),
            url = escaped(&about.agent_url),
            path = super::directory::PATH
        );
    }
    if !about.ranges.is_empty() {
        let ranges: Vec<String> = about.ranges.iter().map(|range| escaped(range)).collect();
        let _ = writeln!(out, "<p>We ask from these addresses:</p>\n<pre>{}</pre>", ranges.join("\n"));
    }
    let robots = if about.obeys_robots {
        "robots.txt is obeyed (RFC 9309), with Crawl-delay, and so are <code>X-Robots-Tag</code> and \
         <code>meta robots</code>."
    } else {
        "This crawl runs with the consent of the sites it visits and does not ask for robots.txt."
    };
    let _ = writeln!(
        out,
        "<h2>How we behave</h2>\n<p>At most {} request{} at a time to a site, and {} of rest after each; longer if your \
         robots.txt asks for it, if your server is slow, or if it answers 429 or 503. {robots} We send GET and HEAD alone, \
         follow no login, and solve no challenge.</p>",
        about.connections,
        if about.connections == 1 { "" } else { "s" },
        seconds(about.delay)
    );
    let _ = writeln!(
        out,
        "<h2>How to keep us out</h2>\n<p>Of a part of your site, or of all of it:</p>\n<pre>User-agent: {agent}\n\
         Disallow: /private/</pre>\n<pre>User-agent: {agent}\nDisallow: /</pre>\n<p>To slow us down:</p>\n\
         <pre>User-agent: {agent}\nCrawl-delay: 10</pre>\n<p>We read robots.txt again within a day. Words about use \
         (<code>Content-Usage</code>, <code>Content-Signal</code>, <code>tdm-reservation</code>) are kept with every page.</p>\n\
         </body>\n</html>"
    );
    out
}

fn seconds(time: Duration) -> String {
    match time.as_millis() {
        1_000 => "1 second".into(),
        ms if ms.is_multiple_of(1_000) => format!("{} seconds", ms / 1_000),
        ms => format!("{ms} milliseconds"),
    }
}

/// A contact as a link, if the contact is a URL or a mail address.
fn link(contact: &str) -> String {
    let text = escaped(contact);
    if contact.starts_with("https://") || contact.starts_with("http://") {
        format!("<a href=\"{text}\">{text}</a>")
    } else if contact.contains('@') {
        let address = contact.strip_prefix("mailto:").unwrap_or(contact);
        format!("<a href=\"mailto:{0}\">{0}</a>", escaped(address))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            agent: "Nephila".into(),
            user_agent: "Mozilla/5.0 (compatible; Nephila/1; +https://c.test)".into(),
            contact: "me@c.test".into(),
            purpose: "<script>We study \"links\".".into(),
            delay: Duration::from_secs(2),
            connections: 1,
            obeys_robots: true,
            ..About::default()
        }
    }

    #[test]
    fn the_page_tells_who_asks_and_how_to_be_left_alone() {
        let page = html(&about());
        for part in [
            "User-agent: Nephila\nDisallow: /<",
            "At most 1 request at a time to a site, and 2 seconds of rest",
            "<a href=\"mailto:me@c.test\">",
            "&lt;script&gt;We study &quot;links&quot;.",
            "Anybody can copy it",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src="), "{page}");
        let signed = html(&About { keyid: "k".into(), agent_url: "https://c.test".into(), ..about() });
        assert!(signed.contains("https://c.test/.well-known/http-message-signatures-directory"), "{signed}");
    }
}
