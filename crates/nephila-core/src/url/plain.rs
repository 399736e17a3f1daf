//! References that need no parser: most of those in pages.
//!
//! A reference is taken if it has only bytes that the parser of the `url` crate leaves as they are, in places where it
//! leaves them, and if nothing of it has to be found out: an absolute path, a path below the document's folder or one
//! above it, a query, or an absolute URL whose host is that of the document or a name in plain letters. Everything else is
//! none of ours, above all what is doubtful. The result is the concatenation of two texts.
//!
//! Invariant: whatever is taken has the text and the key that the parser would give. A test compares them.

use encoding_rs::{Encoding, ISO_2022_JP};

use super::{
    CrawlUrl, Fragments, HostKind, KeyRules, LABEL_BYTES_MAX, NAME_BYTES_MAX, Places, URL_BYTES_MAX,
};

/// Resolves a reference in this document. None if it needs the parser, or is no URL.
pub(super) fn join(
    base: &CrawlUrl,
    input: &str,
    encoding: Option<&'static Encoding>,
    rules: &KeyRules,
) -> Option<CrawlUrl> {
    if input.len() > URL_BYTES_MAX || encoding == Some(ISO_2022_JP) {
        return None;
    }
    let bytes = input.as_bytes();
    let absolute = match bytes {
        [b'h', ..] => scheme_end(input).map(|end| (&input[..end], &input[end..])),
        [b'/', b'/', ..] => Some((&base.as_str()[..usize::from(base.places.host_from)], &input[2..])),
        _ => None,
    };
    if let Some((scheme, rest)) = absolute {
        return with_host(base, scheme, rest, rules);
    }
    let (from, to) = (usize::from(base.places.path_from), usize::from(base.places.path_to));
    let (kept, rest) = match bytes {
        [] => (base.as_str(), ""),
        [b'#', ..] => (base.as_str(), input),
        [b'/', ..] => (base.origin(), input),
        [b'?', ..] => (&base.as_str()[..to], input),
        _ => in_folder(&base.as_str()[..to], from, input)?,
    };
    glue(base, [kept, "", ""], base.places, rest, rules)
}

/// The length of `http://` or `https://`, if a text begins so.
fn scheme_end(input: &str) -> Option<usize> {
    ["https://", "http://"].into_iter().find(|scheme| input.starts_with(scheme)).map(str::len)
}

/// A URL with a host of its own: `rest` begins with the host.
fn with_host(base: &CrawlUrl, scheme: &str, rest: &str, rules: &KeyRules) -> Option<CrawlUrl> {
    let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let is_own = scheme.len() == usize::from(base.places.host_from) && authority == base.authority();
    if !is_own && !is_plain_name(authority) {
        return None;
    }
    let host_to = if is_own { usize::from(base.places.host_to) } else { scheme.len() + authority.len() };
    let places = Places {
        host_from: u16::try_from(scheme.len()).ok()?,
        host_to: u16::try_from(host_to).ok()?,
        path_from: u16::try_from(scheme.len() + authority.len()).ok()?,
        path_to: 0,
        host: if is_own { base.places.host } else { HostKind::Name },
    };
    let slash = if tail.starts_with('/') { "" } else { "/" };
    glue(base, [scheme, authority, slash], places, tail, rules)
}

/// A URL from parts of which only the last, `tail`, is not known to be right: the end of a path, a query, a fragment.
fn glue(base: &CrawlUrl, kept: [&str; 3], places: Places, tail: &str, rules: &KeyRules) -> Option<CrawlUrl> {
    let kept_bytes = kept.iter().map(|part| part.len()).sum::<usize>();
    // The query of the document stays if there is neither a path nor a query.
    let keeps_query = kept[0].len() > usize::from(base.places.path_to);
    let Tail { path_to, end } = read_tail(tail.as_bytes())?;
    if end < tail.len() && rules.fragments != Fragments::Drop || kept_bytes + end > URL_BYTES_MAX {
        return None;
    }
    let path_to = if keeps_query { base.places.path_to } else { u16::try_from(kept_bytes + path_to).ok()? };
    let mut text = String::with_capacity(kept_bytes + end);
    kept.iter().for_each(|part| text.push_str(part));
    text.push_str(&tail[..end]);
    Some(CrawlUrl::of(text, Places { path_to, ..places }, "".into(), None, rules))
}

/// The folder of a document, or one above it, and the rest of a relative reference. `path` begins at `from` in the text
/// before the query.
fn in_folder<'t, 'i>(text: &'t str, from: usize, input: &'i str) -> Option<(&'t str, &'i str)> {
    let folder_of = |end: usize| text[from..end].rfind('/').map_or(end, |at| from + at + 1);
    let mut end = folder_of(text.len());
    let mut rest = input;
    loop {
        if let Some(above) = rest.strip_prefix("../") {
            end = folder_of((end - 1).max(from + 1));
            rest = above;
        } else if let Some(here) = rest.strip_prefix("./") {
            rest = here;
        } else {
            break;
        }
    }
    let is_plain = rest.len() < input.len() || !first_segment(input).contains(':');
    (is_plain && !rest.starts_with('/')).then(|| (&text[..end], rest))
}

/// The text that could be a scheme.
fn first_segment(input: &str) -> &str {
    input.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Whether this is a name in the form that a URL has: labels of letters, digits and single hyphens, the last one of
/// letters. An escaped, a numeric and a decorated one need the parser.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |label: &str| {
        let bytes = label.as_bytes();
        (1..=LABEL_BYTES_MAX).contains(&bytes.len())
            && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && bytes[0] != b'-'
            && bytes[bytes.len() - 1] != b'-'
            && !label.contains("--")
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= NAME_BYTES_MAX
        && last.bytes().all(|byte| byte.is_ascii_lowercase())
        && name.split('.').all(is_plain)
}

/// The end of a URL, as long as it is plain.
struct Tail {
    /// The end of the path.
    path_to: usize,
    /// The end of the query: the fragment begins here.
    end: usize,
}

/// Reads the end of a path, a query and a fragment. None if one of the first two is not plain.
fn read_tail(tail: &[u8]) -> Option<Tail> {
    let mut at = 0;
    let mut begins_segment = true;
    while let Some(&byte) = tail.get(at) {
        match CLASSES[usize::from(byte)] {
            PLAIN => begins_segment = false,
            SLASH => begins_segment = true,
            DOT if begins_segment && is_dot_segment(&tail[at..]) => return None,
            DOT => begins_segment = false,
            // A dot in disguise.
            PERCENT if matches!(tail.get(at + 1..at + 3), Some([b'2', b'e' | b'E'])) => return None,
            PERCENT => begins_segment = false,
            ENDS => break,
            _ => return None,
        }
        at += 1;
    }
    let path_to = at;
    if tail.get(at) == Some(&b'?') {
        let is_plain = |byte: &u8| match CLASSES[usize::from(*byte)] {
            OTHER => matches!(byte, b'[' | b']' | b'|'),
            _ => *byte != b'#',
        };
        at += tail[at..].iter().take_while(|byte| is_plain(byte)).count();
    }
    matches!(tail.get(at), None | Some(b'#')).then_some(Tail { path_to, end: at })
}

/// Whether a segment that begins with a dot is `.` or `..`.
fn is_dot_segment(segment: &[u8]) -> bool {
    let ends = |byte: Option<&u8>| matches!(byte, None | Some(b'/' | b'?' | b'#'));
    ends(segment.get(1)) || segment.get(1) == Some(&b'.') && ends(segment.get(2))
}

const OTHER: u8 = 0;
const PLAIN: u8 = 1;
const SLASH: u8 = 2;
const DOT: u8 = 3;
const PERCENT: u8 = 4;
const ENDS: u8 = 5;

/// The meaning of each byte in a path.
static CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~!$&()*+,;=:@";
    let mut at = 0;
    while at < plain.len() {
        classes[plain[at] as usize] = PLAIN;
        at += 1;
    }
    classes[b'/' as usize] = SLASH;
    classes[b'.' as usize] = DOT;
    classes[b'%' as usize] = PERCENT;
    classes[b'?' as usize] = ENDS;
    classes[b'#' as usize] = ENDS;
    classes
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url::{Base, join::parse};

    const BASES: &[&str] = &[
        "http://a.test/",
        "http://a.test/dir/page",
        "https://a.test/d/e/f/?q=1&r=/../x",
        "http://a.test:8080/x//y/..z/p%2Fq;a=b?",
        "http://127.0.0.1:8080/a/b",
        "https://[2001:db8::1]/a/b?c",
        "https://xn--bcher-kva.test/%7Ea/b",
    ];

    fn rules() -> [KeyRules; 3] {
        let plain = KeyRules::default();
        let all = KeyRules {
            fragments: Fragments::HashBang,
            query_sort: true,
            query_drop: vec!["utm_*".into()],
            slashes_merge: true,
        };
        let keep = KeyRules { fragments: Fragments::Keep, ..plain.clone() };
        [plain, all, keep]
    }

    /// Compares with the parser. Returns whether the reference was taken.
    fn check(base: &CrawlUrl, input: &str, encoding: Option<&'static Encoding>, rules: &KeyRules) -> bool {
        let Some(taken) = join(base, input, encoding, rules) else { return false };
        let parsed = parse(input, Some(&Base::new(base)), encoding, rules)
            .unwrap_or_else(|error| panic!("{input:?} in {base} is {taken} and not {error}"));
        assert!(taken.is_same(&parsed), "{input:?} in {base} is {taken} and not {parsed}");
        true
    }

    #[test]
    fn references_as_pages_have_them_need_no_parser() {
        let plain = KeyRules::default();
        for base in BASES.iter().map(|base| CrawlUrl::parse(base).unwrap()) {
            for input in [
                "",
                "#top",
                "/",
                "/a/b.html",
                "/a/.well-known/x",
                "/%7euser/%C3%A9?q=%20#é",
                "page-2.html?x=1&y[]=2",
                "./p",
                "../p",
                "../../../../p/",
                "../?q",
                "?q=a/../b",
                "//b.test",
                "//www.b-c.example/x?y",
                "http://b.test/x",
                "https://b.test?y",
                "https://b.test#z",
            ] {
                assert!(check(&base, input, Some(encoding_rs::UTF_8), &plain), "{input:?} in {base}");
            }
            let own = format!("{}/x/y?z#w", base.origin());
            assert!(check(&base, &own, None, &plain), "{own}");
        }
    }

    #[test]
    fn doubtful_references_are_left_to_the_parser() {
        let base = CrawlUrl::parse("http://a.test/dir/page").unwrap();
        let long = format!("/{}", "x".repeat(URL_BYTES_MAX));
        let doubtful = " /x¦/a b¦/a\tb¦/é¦/?é¦/a\\b¦/a/../b¦/a/./b¦/a/..¦/a/.?q¦/a/%2e%2E/b¦/.%2e/b¦..¦.¦..//x¦a/..¦x:y¦mailto:x¦\
            HTTP://a.test/¦http:/x¦http:x¦http:///x¦http://A.test/¦http://u@a.test/¦http://a.test:80/¦http://a.test./¦\
            http://b_c.test/¦http://1.2.3.4/¦http://b.0x1/¦http://b.test1/¦http://xn--a.test/¦http://-b.test/¦\
            http://b..test/¦http://a.test\\x¦/?'¦/<";
        for input in doubtful.split('¦').chain([long.as_str()]) {
            assert!(join(&base, input, None, &KeyRules::default()).is_none(), "{input:?}");
        }
        // In this encoding ASCII is not what it seems.
        assert!(join(&base, "/?a", Some(ISO_2022_JP), &KeyRules::default()).is_none());
        assert!(join(&base, "#a", None, &rules()[2]).is_none(), "the fragment is kept");
    }

    #[test]
    fn a_url_that_gets_too_long_is_left_to_the_parser() {
        let base = CrawlUrl::parse(&format!("http://a.test/{}/", "x".repeat(URL_BYTES_MAX - 20))).unwrap();
        let room = URL_BYTES_MAX - base.as_str().len();
        for bytes in [room, room + 1] {
            let input = "y".repeat(bytes);
            assert_eq!(check(&base, &input, None, &KeyRules::default()), bytes == room);
        }
    }

    /// Pieces of which references are made, plain and not.
    const PIECES: &str = "/¦a¦b.html¦..¦.¦../¦./¦?¦#¦x=1¦&¦=¦%2e¦%2E¦%41¦%7e¦%¦%zz¦http://¦https://¦//¦a.test¦b.test¦b.c.test¦\
        www.¦127.0.0.1¦[2001:db8::1]¦:8080¦:80¦@¦:¦;¦,¦'¦\"¦\\¦|¦[¦]¦^¦`¦{¦}¦<¦~¦_¦-¦--¦xn--¦!¦$¦(¦*¦+¦ ¦\t¦é¦utm_a=1¦0x1¦1";

    fn reference() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => proptest::sample::select(PIECES.split('¦').collect::<Vec<_>>()).prop_map(str::to_owned),
            1 => "[ -~]{0,3}",
            1 => "[a-z0-9/.]{0,6}",
        ];
        proptest::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..Default::default() })]

        #[test]
        fn what_is_taken_is_what_the_parser_gives(input in reference(), base in 0..BASES.len()) {
            let base = CrawlUrl::parse(BASES[base]).unwrap();
            for rules in &rules() {
                for encoding in [None, Some(encoding_rs::WINDOWS_1251), Some(encoding_rs::SHIFT_JIS)] {
                    check(&base, &input, encoding, rules);
                }
            }
        }
    }
}
