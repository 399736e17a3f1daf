//! Every way a fetch can end: one table, used by retries, `explain`, metrics and the docs page.
//!
//! Failures of the web are values, not errors. A fetch always ends with exactly one [`Outcome`]; its [`Class`] is the
//! kind of end, and its [`Action`] decides what happens to the URL next: keep, retry with backoff, or give up. Nothing
//! outside this file maps a status or an error to a decision.

use std::fmt;

use crate::url::{PortDenied, UrlError};

/// The kind of end of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// There is a response worth keeping.
    Ok,
    /// The server says that there is nothing here.
    Gone,
    /// A retry may succeed.
    Retry,
    /// The fetch is forbidden: by the site, the operator, or our own rules.
    Refused,
    /// The fetch cannot succeed as things are, and an immediate retry would not help.
    Broken,
}

impl Class {
    /// The class as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Ok => "ok",
            Class::Gone => "gone",
            Class::Retry => "retry",
            Class::Refused => "refused",
            Class::Broken => "broken",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The next step for the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Keep the response and read the body.
    Keep,
    /// Keep the response and offer the redirect's target to intake as a URL of its own.
    Offer,
    /// Keep the received bytes unread; the URL is done.
    KeepUnread,
    /// The URL is done; fetch again only by its schedule.
    Done,
    /// Retry later, with exponential backoff.
    BackOff,
    /// Retry when the site allows (`Retry-After`); the whole host rests until then.
    BackOffHost,
    /// A local fault or shortage: retry soon, nothing is counted against the host.
    Pause,
    /// Never fetch again unless the operator changes the rules.
    Never,
}

impl Action {
    /// The action as a short phrase, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::Keep => "keep and read",
            Action::Offer => "keep, offer the target",
            Action::KeepUnread => "keep, do not read",
            Action::Done => "done",
            Action::BackOff => "ask again later",
            Action::BackOffHost => "rest the host, then ask again",
            Action::Pause => "pause, then ask again",
            Action::Never => "never ask again",
        }
    }
}

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $class:ident, $action:ident;)+) => {
        /// How a fetch ended. The variants' docs are the meanings in the docs page.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Outcome {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Outcome {
            /// All outcomes, in the order of the table.
            pub const ALL: &'static [Outcome] = &[$(Outcome::$variant,)+];

            /// The name under which the outcome is recorded.
            pub const fn name(self) -> &'static str {
                match self { $(Outcome::$variant => $name,)+ }
            }

            /// The kind of end.
            pub const fn class(self) -> Class {
                match self { $(Outcome::$variant => Class::$class,)+ }
            }

            /// The next step for the URL.
            pub const fn action(self) -> Action {
                match self { $(Outcome::$variant => Action::$action,)+ }
            }

            /// The meaning, in a sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self { $(Outcome::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

outcomes! {
    /// An answer with status 2xx, whole.
    Fetched = "ok", Ok, Keep;
    /// 304 to a conditional request: the stored copy is still current.
    NotModified = "not-modified", Ok, Done;
    /// 301, 302, 303, 307 or 308 with a target that can be requested.
    Redirect = "redirect", Ok, Offer;
    /// 300: the server offers a choice; kept as a page.
    MultipleChoices = "multiple-choices", Ok, Keep;
    /// The body reached a size limit of ours and was cut (`WARC-Truncated: length`).
    CutLength = "cut-length", Ok, Keep;
    /// The body met a deadline or fell below the minimum speed and was cut (`WARC-Truncated: time`).
    CutTime = "cut-time", Retry, BackOff;
    /// The connection ended inside the body (`WARC-Truncated: disconnect`).
    CutDisconnect = "cut-disconnect", Retry, BackOff;
    /// The decoded body exceeded its limit, or decoding took more work than one body gets: a bomb, or a very large
    /// page. Kept as sent.
    DecodeLimit = "decode-limit", Broken, KeepUnread;
    /// More nested content codings than we decode. Kept as sent.
    DecodeChain = "decode-chain", Broken, KeepUnread;

    /// 404.
    NotFound = "not-found", Gone, Done;
    /// 410.
    Gone = "gone", Gone, Done;

    /// 401, or 407 from a proxy: credentials are required that we do not have.
    Unauthorized = "unauthorized", Refused, Done;
    /// 402: the site demands payment.
    PaymentRequired = "payment-required", Refused, Never;
    /// 403.
    Forbidden = "forbidden", Refused, Done;
    /// 451.
    Legal = "legal", Refused, Never;
    /// A challenge page for browsers. We do not solve challenges; the host rests.
    Challenged = "challenged", Refused, BackOffHost;
    /// Another status 4xx.
    ClientError = "client-error", Refused, Done;
    /// 429: too many requests.
    RateLimited = "rate-limited", Retry, BackOffHost;
    /// 503.
    Unavailable = "unavailable", Retry, BackOffHost;
    /// Another status 5xx.
    ServerError = "server-error", Retry, BackOff;
    /// A status outside 100 to 599.
    StatusUnknown = "status-unknown", Broken, Done;
    /// 421 on a connection of its own: the server does not serve this name.
    Misdirected = "misdirected", Broken, BackOff;

    /// A redirect without a usable `Location`: missing, empty, several different ones, too long, not a URL.
    RedirectBadLocation = "redirect-bad-location", Broken, KeepUnread;
    /// A redirect to something that is neither http nor https.
    RedirectScheme = "redirect-scheme", Refused, KeepUnread;
    /// A chain of redirects returned to an earlier URL.
    RedirectLoop = "redirect-loop", Broken, BackOff;
    /// A chain of redirects was longer than `redirects_max`.
    RedirectLimit = "redirect-limit", Broken, BackOff;
    /// A redirect to the same URL that needs a cookie we do not send.
    CookieWall = "cookie-wall", Refused, Done;
    /// The redirect leaves the requested scope.
    OutOfScope = "out-of-scope", Refused, Done;
    /// robots.txt forbids it.
    RobotsDenied = "robots-denied", Refused, Done;
    /// robots.txt could not be read, so everything is forbidden until a copy can be read (RFC 9309, 2.3.1.4).
    RobotsUnreachable = "robots-unreachable", Retry, BackOffHost;

    /// Not a URL.
    UrlBad = "url-bad", Broken, Never;
    /// A host name that cannot exist: a label over 63 bytes, a name over 253, forbidden characters.
    UrlBadHost = "url-bad-host", Broken, Never;
    /// The URL is longer than the limit.
    UrlTooLong = "url-too-long", Broken, Never;
    /// Neither http nor https.
    UrlScheme = "url-scheme", Refused, Never;
    /// A port outside the allow-list, or one that browsers never use.
    PortDenied = "port-denied", Refused, Never;
    /// The address is private, reserved or our own.
    AddressPrivate = "address-private", Refused, Never;

    /// The name does not exist.
    DnsNxdomain = "dns-nxdomain", Retry, BackOff;
    /// The name exists and has no address.
    DnsNodata = "dns-nodata", Retry, BackOff;
    /// The resolver could not get an answer (SERVFAIL).
    DnsServfail = "dns-servfail", Retry, BackOff;
    /// The resolver refuses to answer.
    DnsRefused = "dns-refused", Retry, BackOff;
    /// No answer in time.
    DnsTimeout = "dns-timeout", Retry, BackOff;
    /// The answer did not fit a datagram and TCP did not work.
    DnsTruncated = "dns-truncated", Retry, BackOff;
    /// The aliases form a loop, or are more than we follow.
    DnsCnameLoop = "dns-cname-loop", Broken, BackOff;
    /// The address is 0.0.0.0 or ::, as block lists answer.
    DnsNullAddress = "dns-null-address", Broken, BackOff;
    /// The answer is not DNS.
    DnsBadAnswer = "dns-bad-answer", Retry, BackOff;
    /// Our resolver is unreachable. No host is to blame.
    DnsUnreachable = "dns-unreachable", Retry, Pause;

    /// The connection was refused.
    ConnectRefused = "connect-refused", Retry, BackOff;
    /// No connection in time.
    ConnectTimeout = "connect-timeout", Retry, BackOff;
    /// No route to the address.
    ConnectUnreachable = "connect-unreachable", Retry, BackOff;
    /// No free file handles on our side.
    LocalFiles = "local-files", Retry, Pause;
    /// No free ports on our side.
    LocalPorts = "local-ports", Retry, Pause;
    /// Our own disk did not accept the body.
    LocalDisk = "local-disk", Retry, Pause;
    /// The proxy is unreachable, or does not perform the request.
    ProxyFailed = "proxy-failed", Retry, Pause;

    /// The certificate has expired or is not valid yet.
    TlsExpired = "tls-expired", Refused, BackOff;
    /// The certificate's issuer is unknown: self-signed, or the chain has a gap.
    TlsUntrusted = "tls-untrusted", Refused, BackOff;
    /// The certificate is for another name.
    TlsName = "tls-name", Refused, BackOff;
    /// The certificate is wrong in another way.
    TlsCertificate = "tls-certificate", Refused, BackOff;
    /// No version or cipher in common.
    TlsVersion = "tls-version", Broken, BackOff;
    /// The handshake did not end in time.
    TlsTimeout = "tls-timeout", Retry, BackOff;
    /// The server ended the handshake with an alert.
    TlsAlert = "tls-alert", Broken, BackOff;
    /// The connection ended inside the handshake.
    TlsClosed = "tls-closed", Retry, BackOff;
    /// The received bytes are not TLS, or violate the protocol.
    TlsProtocol = "tls-protocol", Broken, BackOff;

    /// The request could not be written in time.
    WriteTimeout = "write-timeout", Retry, BackOff;
    /// The head did not arrive in time.
    HeadTimeout = "head-timeout", Retry, BackOff;
    /// The whole fetch took too long before there was a response.
    TotalTimeout = "total-timeout", Retry, BackOff;
    /// The connection was reset before a response.
    Reset = "reset", Retry, BackOff;
    /// The connection was closed before a response.
    EmptyReply = "empty-reply", Retry, BackOff;
    /// The head is larger than the limit, in bytes or in fields.
    HeadTooLarge = "head-too-large", Broken, BackOff;
    /// More informational answers (1xx) than the limit.
    InformationalFlood = "informational-flood", Broken, BackOff;
    /// The received bytes are not an HTTP status line.
    BadStatusLine = "bad-status-line", Broken, BackOff;
    /// A header field that cannot be parsed and cannot be skipped.
    BadHeader = "bad-header", Broken, BackOff;
    /// Contradictory or invalid lengths.
    BadFraming = "bad-framing", Broken, BackOff;
    /// A transfer coding that we do not decode.
    TransferCoding = "transfer-coding", Broken, BackOff;
    /// 101 without a request for an upgrade.
    UnexpectedUpgrade = "unexpected-upgrade", Broken, BackOff;
    /// 304 to a request without conditions.
    UnexpectedNotModified = "unexpected-not-modified", Broken, BackOff;
    /// 206 to a request without a range.
    UnexpectedPartial = "unexpected-partial", Broken, BackOff;
    /// The server violates the HTTP/2 protocol.
    H2Protocol = "h2-protocol", Broken, BackOff;
    /// The server reset the stream.
    H2Reset = "h2-reset", Retry, BackOff;
    /// The server sent GOAWAY before a response, twice.
    H2Goaway = "h2-goaway", Retry, BackOff;

    /// We cancelled the fetch: the process ends, or the ticket was revoked.
    Cancelled = "cancelled", Retry, Pause;
    /// The job accepts no more pages from this host.
    LimitReached = "limit-reached", Refused, Done;
    /// A public site, but the crawler has no contact: `identity.contact` is empty.
    NoContact = "no-contact", Refused, Never;
    /// Our own program failed on this page: a fault of ours that should be reported. The page is retried a few times,
    /// much later; everything else continues.
    Crashed = "crashed", Broken, BackOff;
    /// An operator stopped the host, the domain or the address (`nephila stop`). The URL is kept, and retried later.
    StopList = "stop-list", Retry, Pause;
    /// A public site, but the crawl delay or the connections in the settings are for one's own sites only:
    /// `crawl.own_sites` is off.
    NotOwnSite = "not-own-site", Refused, Never;
    /// Reading the page did not end in time and was abandoned: a fault of ours that should be reported. Kept as sent.
    ReadTimeout = "read-timeout", Broken, KeepUnread;
    /// A remote spider had the URL and gave no result, however often the URL was sent again. No host is to blame.
    SpiderLost = "spider-lost", Retry, Pause;
}

impl Outcome {
    /// Whether our own rules forbid every request to the host: its port, its address, or the settings without which no
    /// public site is requested. The next request would end the same way.
    pub const fn is_host_forbidden(self) -> bool {
        use Outcome as O;
        matches!(self, O::PortDenied | O::AddressPrivate | O::NoContact | O::NotOwnSite | O::UrlBadHost)
    }

    /// The first sentence of the meaning, without the full stop.
    pub fn in_short(self) -> &'static str {
        let meaning = self.meaning().trim().trim_end_matches('.');
        meaning.split_once(". ").map_or(meaning, |(first, _)| first)
    }

    /// The outcome of a complete, expected response with this status. Redirects, 206, 304 and 421 need more than a
    /// status and are judged by [`crate::spider::answer`].
    pub const fn of_status(status: u16) -> Outcome {
        match status {
            200..=299 => Outcome::Fetched,
            300 => Outcome::MultipleChoices,
            304 => Outcome::NotModified,
            301 | 302 | 303 | 307 | 308 => Outcome::Redirect,
            // 305 and 306 are obsolete, 309 to 399 were never assigned: pages like any other, as browsers show them.
            305 | 306 | 309..=399 => Outcome::MultipleChoices,
            401 | 407 => Outcome::Unauthorized,
            402 => Outcome::PaymentRequired,
            403 => Outcome::Forbidden,
            404 => Outcome::NotFound,
            410 => Outcome::Gone,
            421 => Outcome::Misdirected,
            429 => Outcome::RateLimited,
            451 => Outcome::Legal,
            400..=499 => Outcome::ClientError,
            503 => Outcome::Unavailable,
            500..=599 => Outcome::ServerError,
            _ => Outcome::StatusUnknown,
        }
    }

    /// The number that is stored: the line in the table. New outcomes are therefore added at the end of the table.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The outcome with this stored number.
    pub fn by_code(code: u8) -> Option<Outcome> {
        Outcome::ALL.get(usize::from(code)).copied()
    }

    /// Whether there was no connection at all. If so, no server was reached, and another address of the name may still
    /// respond.
    pub const fn is_unconnected(self) -> bool {
        matches!(self, Outcome::ConnectRefused | Outcome::ConnectTimeout | Outcome::ConnectUnreachable)
    }

    /// The outcome with this name.
    pub fn by_name(name: &str) -> Option<Outcome> {
        Outcome::ALL.iter().copied().find(|o| o.name() == name)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The docs page of the table, in Markdown. `cargo xtask docs` writes the page and CI compares.
pub fn docs_page() -> String {
    let mut page = String::from(
        "# Outcomes\n\nEvery way a fetch can end. This page is generated from the table in \
         `crates/nephila-core/src/spider/outcome.rs` by `cargo xtask docs`; do not edit it.\n\n\
         | name | class | what happens next | meaning |\n|---|---|---|---|\n",
    );
    for outcome in Outcome::ALL {
        page.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            outcome.name(),
            outcome.class(),
            outcome.action().as_str(),
            outcome.meaning().trim()
        ));
    }
    page
}

impl UrlError {
    /// The outcome under which the error is recorded.
    pub fn outcome(&self) -> Outcome {
        match self {
            UrlError::Bad(_) => Outcome::UrlBad,
            UrlError::BadHost(_) => Outcome::UrlBadHost,
            UrlError::TooLong => Outcome::UrlTooLong,
            UrlError::Scheme(_) => Outcome::UrlScheme,
        }
    }
}

impl PortDenied {
    /// The outcome under which the refusal is recorded.
    pub const fn outcome(self) -> Outcome {
        Outcome::PortDenied
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_kebab() {
        let names: HashSet<_> = Outcome::ALL.iter().map(|o| o.name()).collect();
        assert_eq!(names.len(), Outcome::ALL.len());
        for outcome in Outcome::ALL {
            assert!(
                outcome.name().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            assert_eq!(Outcome::by_name(outcome.name()), Some(*outcome));
            assert!(outcome.meaning().trim().ends_with('.'), "{outcome} has no sentence");
        }
    }

    // Records of years ago hold these numbers. A line may be added at the end of the table, never inside it.
    #[test]
    fn codes_never_change() {
        let names: Vec<_> = Outcome::ALL.iter().map(|o| o.name()).collect();
        let golden = include_str!("outcome_codes.txt");
        for (code, name) in golden.lines().enumerate() {
            assert_eq!(names.get(code), Some(&name), "code {code}");
            assert_eq!(Outcome::by_code(code as u8).map(Outcome::code), Some(code as u8));
        }
        assert_eq!(names.len(), golden.lines().count(), "add the new outcome to outcome_codes.txt");
    }

    #[test]
    fn every_status_has_an_outcome() {
        for status in 0..=1000u16 {
            let class = Outcome::of_status(status).class();
            match status {
                200..=399 => assert_eq!(class, Class::Ok, "{status}"),
                429 | 500..=599 => assert_eq!(class, Class::Retry, "{status}"),
                404 | 410 => assert_eq!(class, Class::Gone, "{status}"),
                421 => assert_eq!(class, Class::Broken, "{status}"),
                400..=499 => assert_eq!(class, Class::Refused, "{status}"),
                _ => assert_eq!(class, Class::Broken, "{status}"),
            }
        }
    }

    #[test]
    fn what_is_ours_is_never_held_against_a_host() {
        for ours in [
            Outcome::LocalFiles,
            Outcome::LocalPorts,
            Outcome::DnsUnreachable,
            Outcome::Cancelled,
            Outcome::StopList,
            Outcome::SpiderLost,
        ] {
            assert_eq!((ours.class(), ours.action()), (Class::Retry, Action::Pause), "{ours}");
        }
    }
}
