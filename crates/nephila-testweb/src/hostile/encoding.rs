//! ENC-01 to ENC-10: pages whose bytes, header and meta disagree about the charset.
//!
//! Every page links to `/found...`, written in the page's real encoding, so that a test sees whether links survive.

use std::io;

use super::Case;
use super::conn::{Conn, Head, Next, not_found, page, response};

pub(super) const CASES: &[Case] = &[
    Case::http(
        "enc-01",
        &[
            ("/", "header utf-8, meta windows-1251, bytes windows-1251"),
            ("/meta", "no charset in the header"),
        ],
    ),
    Case::http(
        "enc-02",
        &[
            ("/le", "UTF-16LE with BOM, header says utf-8"),
            ("/be", "UTF-16BE with BOM, header says windows-1252"),
            ("/utf8", "UTF-8 with BOM, header says utf-16"),
        ],
    ),
    Case::http(
        "enc-03",
        &[
            ("/unknown", "charset=klingon"),
            ("/empty", "charset="),
            ("/quoted", "charset=\"utf-8\""),
            ("/single", "charset='utf-8'"),
            ("/utf8", "charset=utf8"),
            ("/none", "charset=none"),
            ("/long", "10 KB"),
        ],
    ),
    Case::http("enc-04", &[("/", "meta charset after 1,500 bytes of comments"), ("/5000", "after 5,000")]),
    Case::http(
        "enc-05",
        &[
            ("/iso2022jp", "ISO-2022-JP hides a tag"),
            ("/hz", "HZ"),
            ("/utf7", "UTF-7 hides a script"),
            ("/utf7meta", "UTF-7 in meta"),
        ],
    ),
    Case::http("enc-06", &[("/", "invalid UTF-8 inside an href"), ("/many", "in every second href")]),
    Case::http("enc-07", &[("/", "relative link with a non-ASCII query in windows-1251")]),
    Case::http("enc-08", &[("/jpeg", "a JPEG as text/html"), ("/zeros", "10 MB of zeros as text/html")]),
    Case::http(
        "enc-09",
        &[("/10485760", "UTF-8 cut inside a character at this many bytes; any number works")],
    ),
    Case::http(
        "enc-10",
        &[
            ("/surrogates", "lone surrogates"),
            ("/private", "private use"),
            ("/rtl", "RTL override in title and URL"),
        ],
    ),
];

const ZEROS: u64 = 10 * 1024 * 1024;
/// The longest page of ENC-09.
const CUT_MAX: usize = 64 * 1024 * 1024;

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    if head.path.starts_with("/found") {
        conn.send(page("<p>found</p>")).await?;
        return Ok(Next::Keep);
    }
    if (conn.id(), head.path.as_str()) == ("enc-08", "/zeros") {
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {ZEROS}\r\n\r\n"))
            .await?;
        conn.repeat_up_to(&[0; 16 * 1024], ZEROS).await?;
        return Ok(Next::Keep);
    }
    let bytes = match body(conn.id(), &head.path) {
        Some((content_type, body)) => response("200 OK", &format!("Content-Type: {content_type}\r\n"), body),
        None => not_found(),
    };
    conn.send(bytes).await?;
    Ok(Next::Keep)
}

/// Content-Type and bytes of one page.
fn body(id: &str, path: &str) -> Option<(String, Vec<u8>)> {
    let html = |label: &str, body: Vec<u8>| (format!("text/html; charset={label}"), body);
    let plain = |body: Vec<u8>| ("text/html".to_owned(), body);
    Some(match (id, path) {
        ("enc-01", "/") => html("utf-8", russian("<meta charset=\"windows-1251\">")),
        ("enc-01", "/meta") => plain(russian("<meta charset=\"windows-1251\">")),
        ("enc-02", "/le") => html("utf-8", utf16(MIXED, u16::to_le_bytes)),
        ("enc-02", "/be") => html("windows-1252", utf16(MIXED, u16::to_be_bytes)),
        ("enc-02", "/utf8") => html("utf-16", format!("\u{feff}{MIXED}").into_bytes()),
        ("enc-03", path) => {
            let label = match path {
                "/unknown" => "klingon".to_owned(),
                "/empty" => String::new(),
                "/quoted" => "\"utf-8\"".to_owned(),
                "/single" => "'utf-8'".to_owned(),
                "/utf8" => "utf8".to_owned(),
                "/none" => "none".to_owned(),
                "/long" => "x".repeat(10 * 1024),
                _ => return None,
            };
            html(&label, MIXED.as_bytes().to_vec())
        }
        ("enc-04", "/") => plain(late_meta(1_500)),
        ("enc-04", "/5000") => plain(late_meta(5_000)),
        // ESC ( J switches to JIS X 0201 Roman, ESC $ B to two-byte characters: the tag is text, not a tag.
        ("enc-05", "/iso2022jp") => html(
            "iso-2022-jp",
            b"<title>\x1b$B\"!\x1b(B</title>\x1b$B<script>\x1b(B<a href=\"/found\">x</a>".to_vec(),
        ),
        ("enc-05", "/hz") => {
            html("hz-gb-2312", b"<title>~{<:Ky2;~}</title><a href=\"/found\">x</a>".to_vec())
        }
        ("enc-05", "/utf7") => html("utf-7", UTF7.to_vec()),
        ("enc-05", "/utf7meta") => plain([b"<meta charset=\"utf-7\">", UTF7].concat()),
        ("enc-06", "/") => {
            html("utf-8", b"<a href=\"/found/a\xff\xc3b\">x</a><a href=\"/found/after\">y</a>".to_vec())
        }
        ("enc-06", "/many") => {
            let pair = |n: usize| {
                let good = format!("<a href=\"/found/{n}\">y</a>").into_bytes();
                [&b"<a href=\"/found/\xe2\x28\xa1\">x</a>"[..], &good].concat()
            };
            html("utf-8", (0..50).flat_map(pair).collect())
        }
        ("enc-07", "/") => {
            let link = windows_1251("<a href=\"/found/путь?поиск=дом\">ссылка</a>");
            html("windows-1251", link)
        }
        ("enc-08", "/jpeg") => {
            let noise = (0..50_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
            plain(
                [0xff, 0xd8, 0xff, 0xe0, 0, 0x10, b'J', b'F', b'I', b'F', 0]
                    .into_iter()
                    .chain(noise)
                    .collect(),
            )
        }
        ("enc-09", path) => {
            let length = path.trim_start_matches('/').parse::<usize>().ok()?.min(CUT_MAX);
            let start = b"<a href=\"/found\">x</a><p>";
            let mut bytes = start.to_vec();
            // Three-byte characters, shifted so that the last one is never whole.
            bytes.extend(std::iter::repeat_n(b'a', length.saturating_sub(start.len() + 2) % 3));
            while bytes.len() + 3 <= length {
                bytes.extend("€".as_bytes());
            }
            bytes.extend(&"€".as_bytes()[..length.saturating_sub(bytes.len()).min(2)]);
            html("utf-8", bytes)
        }
        // A lone surrogate encoded in the manner of UTF-8, and as a character reference.
        ("enc-10", "/surrogates") => html(
            "utf-8",
            b"<title>a\xed\xa0\x80b&#xD800;c</title><a href=\"/found/\xed\xb0\x80\">x</a>".to_vec(),
        ),
        ("enc-10", "/private") => {
            html("utf-8", "<title>\u{e000}\u{f8ff}\u{10ffff}</title><a href=\"/found/\u{e000}\">x</a>".into())
        }
        ("enc-10", "/rtl") => html(
            "utf-8",
            "<title>invoice\u{202e}gpj.exe\u{200b}</title><a href=\"/found/\u{202e}lmth.a\">x</a>".into(),
        ),
        _ => return None,
    })
}

const MIXED: &str =
    "<html><head><title>Größe ✓</title></head><body><a href=\"/found/größe\">link</a></body></html>";
/// In UTF-7 this is a script element; in every encoding a crawler knows this is text.
const UTF7: &[u8] = b"<title>t</title>+ADw-script+AD4-alert(1)+ADw-/script+AD4-<a href=\"/found\">x</a>";

fn russian(meta: &str) -> Vec<u8> {
    let text = "<title>Привет мир</title></head><body><a href=\"/found\">ссылка</a>";
    windows_1251(&format!("<html><head>{meta}{text}</body></html>"))
}

fn late_meta(bytes: usize) -> Vec<u8> {
    let comments = format!("<!-- {} -->", "c".repeat(bytes));
    let text = "<title>Привет</title></head><body><a href=\"/found?дом\">ссылка</a></body></html>";
    windows_1251(&format!("<html><head>{comments}<meta charset=\"windows-1251\">{text}"))
}

/// Russian letters and ASCII in windows-1251; anything else becomes a question mark.
fn windows_1251(text: &str) -> Vec<u8> {
    text.chars()
        .map(|letter| match letter {
            '\0'..='\x7f' => letter as u8,
            'А'..='я' => (letter as u32 - 0x410 + 0xc0) as u8,
            'Ё' => 0xa8,
            'ё' => 0xb8,
            _ => b'?',
        })
        .collect()
}

fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::{body, windows_1251};

    #[test]
    fn the_page_ends_inside_a_character_whatever_the_limit() {
        for length in [100, 101, 102, 1000, 1001] {
            let (_, bytes) = body("enc-09", &format!("/{length}")).unwrap();
            assert_eq!(bytes.len(), length);
            assert_eq!(std::str::from_utf8(&bytes).unwrap_err().error_len(), None, "cut, not invalid");
        }
    }

    #[test]
    fn russian_letters_have_their_bytes() {
        assert_eq!(windows_1251("Аяб"), [0xc0, 0xff, 0xe1]);
    }
}
