//! HTTP authentication: the challenge of a site (`WWW-Authenticate`), and our response: Basic (RFC 7617) and Digest
//! (RFC 7616, MD5 and SHA-256, `qop=auth`).
//!
//! The challenges of the site are parsed, the best one that we support is chosen, and [`digest`] makes the response.
//! The caller provides hashing and randomness.
//!
//! Invariants: parsing is linear in the bytes of a field, which are bounded, and so is the kept part; nothing a site
//! sends makes us answer Basic where the settings demand Digest.

use serde::{Deserialize, Serialize};

/// Maximum length of a field in bytes; longer ones are ignored.
pub const FIELD_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of challenges of one response that are parsed.
const CHALLENGES_MAX: usize = 16;

/// How a name and a password are sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// With every request, in plain text unless the URL is https. A site that requires Digest instead gets Digest.
    #[default]
    Basic,
    /// As a digest, after the challenge of the site; never in plain text.
    Digest,
}

/// The hash of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// For old sites.
    Md5,
    /// Preferred by RFC 7616.
    Sha256,
}

/// The digest challenge of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    algorithm: Algorithm,
    /// The algorithm as the site spells the name, if given.
    spelled: Option<String>,
    /// The secret of a session is hashed, not the secret of the user.
    session: bool,
    /// The site supports `qop=auth`. A site from before 1999 does not.
    qop: bool,
    /// Names are hashed too.
    userhash: bool,
    /// The last response was right but old.
    stale: bool,
}

impl Challenge {
    /// Whether the last response was right but old.
    pub fn is_stale(&self) -> bool {
        self.stale
    }
}

/// The scheme that a site requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Name and password in plain text.
    Basic,
    /// A digest of them.
    Digest(Box<Challenge>),
}

/// The inputs of a digest.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The name.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// `GET` or `HEAD`.
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// Number of responses to this challenge, including this one.
    pub count: u32,
    /// An unpredictable value.
    pub cnonce: &'a str,
}

/// The best challenge that we support: SHA-256 before MD5 before Basic, which counts only if `scheme` allows Basic.
pub fn choose<'a>(fields: impl IntoIterator<Item = &'a [u8]>, scheme: Scheme) -> Option<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    for field in fields {
        if field.len() <= FIELD_BYTES_MAX && all.len() < CHALLENGES_MAX {
            read(&String::from_utf8_lossy(field), &mut all);
        }
    }
    let rank = |wanted: &Wanted| match wanted {
        Wanted::Basic => None,
        Wanted::Digest(challenge) => Some(challenge.algorithm),
    };
    all.into_iter()
        .filter(|wanted| scheme == Scheme::Basic || *wanted != Wanted::Basic)
        // The first of equals: the site's order is its preference.
        .reduce(|best, next| if rank(&next) > rank(&best) { next } else { best })
}

/// The value of the `Authorization` field for a challenge. `hash` returns lower-case hexadecimal digits.
pub fn digest(challenge: &Challenge, asking: Asking<'_>, hash: impl Fn(Algorithm, &str) -> String) -> String {
    let hash = |text: &str| hash(challenge.algorithm, text);
    let Challenge { realm, nonce, .. } = challenge;
    let Asking { user, password, method, target, cnonce, .. } = asking;
    let mut secret = hash(&format!("{user}:{realm}:{password}"));
    if challenge.session {
        secret = hash(&format!("{secret}:{nonce}:{cnonce}"));
    }
    let request = hash(&format!("{method}:{target}"));
    let count = format!("{:08x}", asking.count);
    let response = match challenge.qop {
        true => hash(&format!("{secret}:{nonce}:{count}:{cnonce}:auth:{request}")),
        false => hash(&format!("{secret}:{nonce}:{request}")),
    };
    let name = match challenge.userhash {
        true => format!("username=\"{}\"", hash(&format!("{user}:{realm}"))),
        false if user.is_ascii() => format!("username=\"{}\"", quoted(user)),
        false => format!("username*=UTF-8''{}", escaped(user)),
    };
    let mut value = format!(
        "Digest {name}, realm=\"{}\", nonce=\"{}\", uri=\"{}\", response=\"{response}\"",
        quoted(realm),
        quoted(nonce),
        quoted(target)
    );
    if let Some(algorithm) = &challenge.spelled {
        value += &format!(", algorithm={algorithm}");
    }
    if let Some(opaque) = &challenge.opaque {
        value += &format!(", opaque=\"{}\"", quoted(opaque));
    }
    if challenge.qop {
        value += &format!(", qop=auth, nc={count}, cnonce=\"{}\"", quoted(cnonce));
    } else if challenge.session {
        value += &format!(", cnonce=\"{}\"", quoted(cnonce));
    }
    if challenge.userhash {
        value += ", userhash=true";
    }
    value
}

/// Reads the challenges of one field (RFC 9110, 11.6.1).
fn read(field: &str, all: &mut Vec<Wanted>) {
    let mut scheme = String::new();
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut rest = field;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| " \t,=\"".contains(c)).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        let after = behind.trim_start_matches([' ', '\t']);
        if let Some(value) = after.strip_prefix('=').filter(|_| !token.is_empty()) {
            let (value, left) = read_value(value.trim_start_matches([' ', '\t']));
            parameters.push((token.to_ascii_lowercase(), value));
            rest = left;
            continue;
        }
        // A new scheme, or the end.
        end_of_challenge(&scheme, &parameters, all);
        if token.is_empty() || all.len() >= CHALLENGES_MAX {
            return;
        }
        scheme = token.to_ascii_lowercase();
        parameters.clear();
        rest = behind;
    }
}

/// A token or a quoted string, and the text behind.
fn read_value(text: &str) -> (String, &str) {
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &inside[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    (value, "")
}

fn end_of_challenge(scheme: &str, parameters: &[(String, String)], all: &mut Vec<Wanted>) {
    let get =
        |name: &str| parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    match scheme {
        "basic" => all.push(Wanted::Basic),
        "digest" => {
            let spelled = get("algorithm");
            let (algorithm, session) = match spelled.unwrap_or("MD5").to_ascii_lowercase().as_str() {
                "md5" => (Algorithm::Md5, false),
                "md5-sess" => (Algorithm::Md5, true),
                "sha-256" => (Algorithm::Sha256, false),
                "sha-256-sess" => (Algorithm::Sha256, true),
                _ => return,
            };
            let offers = |qop: &str| qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth"));
            let is_true = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
            // A challenge that requires a hash of the body is not supported.
            let (Some(nonce), true) = (get("nonce"), get("qop").is_none_or(offers)) else { return };
            all.push(Wanted::Digest(Box::new(Challenge {
                realm: get("realm").unwrap_or_default().to_owned(),
                nonce: nonce.to_owned(),
                opaque: get("opaque").map(str::to_owned),
                algorithm,
                spelled: spelled.map(str::to_owned),
                session,
                qop: get("qop").is_some(),
                userhash: is_true("userhash"),
                stale: is_true("stale"),
            })));
        }
        _ => {}
    }
}

/// The inside of a quoted string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '"' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// A value after `UTF-8''` (RFC 8187).
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(field: &str, scheme: Scheme) -> Option<Wanted> {
        choose([field.as_bytes()], scheme)
    }

    fn challenge(field: &str) -> Challenge {
        match chosen(field, Scheme::Digest) {
            Some(Wanted::Digest(challenge)) => *challenge,
            other => panic!("{field}: {other:?}"),
        }
    }

    /// Shows the hashed texts instead of hashing them.
    fn shown(challenge: &Challenge, user: &str) -> String {
        let asking = Asking { user, password: "pw", method: "GET", target: "/a?b", count: 1, cnonce: "c" };
        digest(challenge, asking, |_, text| format!("<{text}>"))
    }

    #[test]
    fn row_01_challenges_are_read_whatever_their_order_and_quoting() {
        let both = "Basic realm=\"x, Digest nonce=\\\"no\\\"\", Digest realm=\"r\", nonce = \"n\", qop=\"auth-int, auth\", \
             algorithm=SHA-256";
        assert_eq!(challenge(both).algorithm, Algorithm::Sha256);
        assert!(matches!(chosen(both, Scheme::Basic), Some(Wanted::Digest(_))), "the better one");
        assert_eq!(chosen("Negotiate abc==, basic realm=x", Scheme::Basic), Some(Wanted::Basic));
        assert_eq!(chosen("Basic realm=x", Scheme::Digest), None, "never readable");
        for none in [
            "",
            "Bearer",
            "Digest realm=\"r\"",
            "Digest nonce=n, qop=auth-int",
            "Digest nonce=n, algorithm=MD6",
            "=",
            "\"",
            ",,,",
        ] {
            assert_eq!(chosen(none, Scheme::Basic), None, "{none}");
        }
        let fields: [&[u8]; 2] = [
            b"Digest realm=\"r\", nonce=\"1\"",
            b"Digest realm=\"r\", nonce=\"2\", algorithm=SHA-256, stale=TRUE",
        ];
        match choose(fields, Scheme::Digest) {
            Some(Wanted::Digest(best)) => assert!(best.nonce == "2" && best.is_stale()),
            other => panic!("{other:?}"),
        }
        assert_eq!(chosen(&"Basic x=\"\\".repeat(4_000), Scheme::Basic), None, "too long");
        assert_eq!(chosen(&"Basic ".repeat(1_000), Scheme::Basic), Some(Wanted::Basic));
    }

    #[test]
    fn row_01_a_digest_hashes_what_the_rfc_says() {
        let said = shown(&challenge("Digest realm=\"r\", nonce=\"n\", qop=\"auth\", opaque=\"o\""), "me");
        assert!(said.contains("response=\"<<me:r:pw>:n:00000001:c:auth:<GET:/a?b>>\""), "{said}");
        assert!(
            said.contains("opaque=\"o\"") && said.contains("qop=auth, nc=00000001, cnonce=\"c\""),
            "{said}"
        );
        assert!(!said.contains("algorithm"), "{said}");
        let old = shown(&challenge("Digest realm=\"r\", nonce=\"n\""), "me");
        assert!(old.contains("response=\"<<me:r:pw>:n:<GET:/a?b>>\"") && !old.contains("qop"), "{old}");
        let session = shown(&challenge("Digest realm=r, nonce=n, qop=auth, algorithm=MD5-sess"), "me");
        assert!(session.contains("response=\"<<<me:r:pw>:n:c>:n:"), "{session}");
        let hashed = shown(&challenge("Digest realm=r, nonce=n, qop=auth, userhash=true"), "me");
        assert!(hashed.contains("username=\"<me:r>\"") && hashed.ends_with("userhash=true"), "{hashed}");
        let quoted = shown(&challenge("Digest realm=\"a\\\"b\", nonce=n"), "m\"e");
        assert!(quoted.contains("username=\"m\\\"e\", realm=\"a\\\"b\""), "{quoted}");
        assert!(quoted.contains("<m\"e:a\"b:pw>"), "{quoted}");
        assert!(shown(&challenge("Digest realm=r, nonce=n"), "é").contains("username*=UTF-8''%C3%A9"));
    }
}
