//! The text that is signed (RFC 9421, 2.5), and the fields that carry a signature.
//!
//! A covered component is a line of the signature base; the last line lists all components with the parameters, and the
//! same list stands in `Signature-Input`. Values are taken verbatim from the request; only the `Accept-Signature` of a
//! site is parsed here ([`wanted`]).

use std::fmt::Write as _;

use data_encoding::BASE64;

/// The tag of signatures that identify a bot.
pub const TAG_BOT: &str = "web-bot-auth";
/// The tag of the signature under a directory of keys.
pub const TAG_DIRECTORY: &str = "http-message-signatures-directory";
/// The label of our signature, unless a site asks for another.
pub const LABEL: &str = "sig1";
/// Maximum length of a label.
const LABEL_BYTES_MAX: usize = 64;
/// Maximum length of an `Accept-Signature` field.
const WANTED_BYTES_MAX: usize = 4 * 1024;

/// One covered component and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component<'a> {
    /// The name, in lower case: `@authority`, `date`.
    pub name: &'a str,
    /// The parameters as written: `;key="sig1"`, `;req`, or nothing.
    pub parameters: String,
    /// The value, on one line.
    pub value: &'a str,
}

impl<'a> Component<'a> {
    /// A component without parameters.
    pub fn new(name: &'a str, value: &'a str) -> Self {
        Component { name, parameters: String::new(), value }
    }

    fn id(&self) -> String {
        format!("\"{}\"{}", self.name, self.parameters)
    }
}

/// The parameters of a signature. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    /// The time of signing.
    pub created: u64,
    /// The end of validity.
    pub expires: Option<u64>,
    /// A value that is used once, in letters that need no escaping.
    pub nonce: Option<&'a str>,
    /// The key: the thumbprint of [`super::directory`].
    pub keyid: &'a str,
    /// The algorithm, where the key does not imply one.
    pub alg: Option<&'a str>,
    /// The purpose of the signature.
    pub tag: Option<&'a str>,
}

/// The list of covered components, as the value of a label in `Signature-Input`.
pub fn input(components: &[Component<'_>], parameters: &Parameters<'_>) -> String {
    let ids: Vec<String> = components.iter().map(Component::id).collect();
    let mut text = format!("({});created={}", ids.join(" "), parameters.created);
    if let Some(expires) = parameters.expires {
        let _ = write!(text, ";expires={expires}");
    }
    for (name, value) in [
        ("nonce", parameters.nonce),
        ("keyid", Some(parameters.keyid)),
        ("alg", parameters.alg),
        ("tag", parameters.tag),
    ] {
        if let Some(value) = value {
            let _ = write!(text, ";{name}={}", quoted(value));
        }
    }
    text
}

/// The signature base: the text that is signed.
pub fn base(components: &[Component<'_>], parameters: &Parameters<'_>) -> String {
    let mut text = String::with_capacity(512);
    for component in components {
        let _ = writeln!(text, "{}: {}", component.id(), component.value);
    }
    text.push_str("\"@signature-params\": ");
    text.push_str(&input(components, parameters));
    text
}

/// A request that is to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking<'a> {
    /// `GET` or `HEAD`.
    pub method: &'a str,
    /// Host and port as in the request, without the default port of the scheme.
    pub authority: &'a str,
    /// The path alone.
    pub path: &'a str,
    /// The URL where our keys are published, `https://crawler.example`.
    pub agent: &'a str,
    /// The label of the signature.
    pub label: &'a str,
}

/// The three fields of a signed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// `Signature-Agent`.
    pub agent: String,
    /// `Signature-Input`.
    pub input: String,
    /// `Signature`.
    pub signature: String,
}

/// Signs a request: `sign` gets the bytes of the base and returns the 64 bytes of an Ed25519 signature.
///
/// The agent is a member of a dictionary under the label of the signature, which covers that member and no other.
pub fn sign(asking: &Asking<'_>, parameters: &Parameters<'_>, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Fields {
    let label = asking.label;
    let agent = quoted(asking.agent);
    let path = if asking.path.is_empty() { "/" } else { asking.path };
    let components = [
        Component::new("@authority", asking.authority),
        Component::new("@method", asking.method),
        Component::new("@path", path),
        Component { name: "signature-agent", parameters: format!(";key={}", quoted(label)), value: &agent },
    ];
    let signature = sign(base(&components, parameters).as_bytes());
    Fields {
        agent: format!("{label}={agent}"),
        input: format!("{label}={}", input(&components, parameters)),
        signature: format!("{label}=:{}:", BASE64.encode(&signature)),
    }
}

/// The label under which a site wants a signature of ours, if its `Accept-Signature` asks for one: a member without a
/// tag, or with ours. A wish for other components is ignored; `Signature-Input` tells the site which are covered.
pub fn wanted(field: &str) -> Option<&str> {
    if field.len() > WANTED_BYTES_MAX {
        return None;
    }
    members(field).find_map(|member| {
        let (label, value) = member.split_once('=')?;
        let (label, value) = (label.trim(), value.trim());
        let first = label.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'*');
        let rest =
            label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        let ours = value.starts_with('(')
            && value.find(";tag=").is_none_or(|at| value[at + 5..].starts_with(&*quoted(TAG_BOT)));
        (first && rest && label.len() <= LABEL_BYTES_MAX && ours).then_some(label)
    })
}

/// The members of a dictionary: the parts between commas outside of quotes.
fn members(field: &str) -> impl Iterator<Item = &str> {
    let (mut inside, mut escaped) = (false, false);
    field.split(move |char| {
        match char {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            ',' if !inside => return true,
            _ => {}
        }
        false
    })
}

/// A string of RFC 8941, 3.3.3. Characters that cannot stand in one are left out.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars().filter(|char| matches!(char, ' '..='~')) {
        if matches!(char, '"' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9421, B.2.6: the base that the RFC signs with its Ed25519 key. The signature itself is checked where the
    /// key is, in `nephila-spider`.
    #[test]
    fn the_base_is_that_of_the_rfc() {
        let components = [
            Component::new("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            Component::new("@method", "POST"),
            Component::new("@path", "/foo"),
            Component::new("@authority", "example.com"),
            Component::new("content-type", "application/json"),
            Component::new("content-length", "18"),
        ];
        let parameters =
            Parameters { created: 1_618_884_473, keyid: "test-key-ed25519", ..Parameters::default() };
        assert_eq!(
            base(&components, &parameters),
            "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\
             \"@authority\": example.com\n\"content-type\": application/json\n\"content-length\": 18\n\
             \"@signature-params\": (\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \
             \"content-length\");created=1618884473;keyid=\"test-key-ed25519\""
        );
    }

    #[test]
    fn a_request_is_signed_for_its_authority_and_its_agent() {
        let asking = Asking {
            method: "GET",
            authority: "a.test:8443",
            path: "",
            agent: "https://crawler.example",
            label: LABEL,
        };
        let parameters = Parameters {
            created: 10,
            expires: Some(20),
            nonce: Some("n"),
            keyid: "k",
            tag: Some(TAG_BOT),
            ..Parameters::default()
        };
        let mut signed = String::new();
        let fields = sign(&asking, &parameters, |bytes| {
            signed = String::from_utf8(bytes.to_vec()).unwrap();
            vec![0xff; 3]
        });
        assert_eq!(fields.agent, "sig1=\"https://crawler.example\"");
        assert_eq!(
            fields.input,
            "sig1=(\"@authority\" \"@method\" \"@path\" \"signature-agent\";key=\"sig1\")\
             ;created=10;expires=20;nonce=\"n\";keyid=\"k\";tag=\"web-bot-auth\""
        );
        assert_eq!(fields.signature, "sig1=:////:");
        assert!(
            signed.starts_with(
                "\"@authority\": a.test:8443\n\"@method\": GET\n\"@path\": /\n\
                 \"signature-agent\";key=\"sig1\": \"https://crawler.example\"\n\"@signature-params\": (\"@authority\""
            ),
            "{signed}"
        );
    }

    #[test]
    fn a_site_that_asks_for_a_signature_is_understood() {
        for (field, label) in [
            ("sig1=(\"@authority\");created;tag=\"web-bot-auth\"", Some("sig1")),
            ("x=(\"@authority\" \"a,b\");tag=\"other\", *b.c=();tag=\"web-bot-auth\"", Some("*b.c")),
            ("mine=(\"@method\");keyid=\"a\\\",b\"", Some("mine")),
            ("x=();tag=\"other\"", None),
            ("Upper=()", None),
            ("1=()", None),
            ("sig", None),
            ("sig=1", None),
            ("", None),
            (",,=,\"", None),
        ] {
            assert_eq!(wanted(field), label, "{field}");
        }
        assert_eq!(wanted(&format!("{}=()", "a".repeat(65))), None);
        assert_eq!(wanted(&"a=(),".repeat(2_000)), None);
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_site_asks_for_is_read_or_not(
            field in proptest::prelude::any::<String>(),
            like in r#"[a-z*"\\,;=() -]{0,80}"#,
        ) {
            for field in [field, like] {
                if let Some(label) = wanted(&field) {
                    // A label is sent back in a header field of ours.
                    let fits = label.bytes().all(|byte| byte.is_ascii_graphic() && !b"=,;".contains(&byte));
                    proptest::prop_assert!(!label.is_empty() && fits);
                }
            }
        }
    }
}
