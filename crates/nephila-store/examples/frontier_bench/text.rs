//! The text of imaginary URLs: words, ids, dates and queries, so that what compresses here compresses elsewhere.
//!
//! Computed from the seed, the host and the number of the URL; two URLs of a host are never the same.

use crate::web::mix;

/// Appends scheme and authority of a host, by its number in its domain; returns where the domain begins in them.
pub fn origin(seed: u64, domain: u32, number: u32, out: &mut String) -> usize {
    let h = mix(seed ^ (u64::from(domain) << 20));
    let begun = out.len();
    out.push_str(if h % 100 < 92 { "https://" } else { "http://" });
    match number {
        0 if !h.is_multiple_of(3) => out.push_str("www."),
        0 => {}
        n if (n as usize) <= HOSTS.len() => {
            out.push_str(HOSTS[n as usize - 1]);
            out.push('.');
        }
        n => {
            out.push_str(word(h ^ u64::from(n)));
            number_to(n.into(), out);
            out.push('.');
        }
    }
    let domain_at = out.len() - begun;
    out.push_str(word(h >> 8));
    if h & 0x100 != 0 {
        out.push_str(word(h >> 16));
    }
    base36(domain.into(), out);
    out.push_str(TLDS[(h >> 40) as usize % TLDS.len()]);
    domain_at
}

/// Appends path and query of a URL.
pub fn text(seed: u64, host: u32, url: u32, out: &mut String) {
    let of_host = mix(seed ^ u64::from(host).rotate_left(32) ^ 0x5eed);
    let h = mix(of_host ^ u64::from(url));
    // Three of the eight kinds on each host, and ids that grow as those of a shop do.
    let kind = (of_host >> (8 * (url % 3))) % 8;
    let id = 1 + (of_host >> 40) % 90_000 + u64::from(url) * (1 + (of_host >> 24) % 5);
    if url == 0 {
        out.push('/');
        return;
    }
    match kind {
        0 => {
            let day = of_host % 5_000 + u64::from(url) / 3;
            push_date(day, out);
            slug(h, 3 + h % 3, '-', out);
            out.push('-');
            number_to(id, out);
        }
        1 => {
            out.push('/');
            out.push_str(word(of_host >> ((h % 4) * 6)));
            out.push('/');
            slug(h, 2 + h % 4, '-', out);
            out.push('-');
            number_to(id, out);
            out.push_str(".html");
        }
        2 => {
            out.push_str("/product/");
            number_to(id, out);
            if h.is_multiple_of(2) {
                out.push_str("?color=");
                out.push_str(word(h >> 9));
            }
        }
        3 => {
            out.push('/');
            out.push_str(word(of_host >> ((h % 6) * 5)));
            out.push_str("?page=");
            number_to(id, out);
            out.push_str("&sort=");
            out.push_str(word(h >> 20 & 3));
        }
        4 => {
            out.push_str("/tag/");
            slug(h, 1 + h % 2, '-', out);
            out.push_str("/page/");
            number_to(id, out);
        }
        5 => {
            out.push_str("/forum/viewtopic.php?f=");
            number_to(h % 40, out);
            out.push_str("&t=");
            number_to(id, out);
        }
        6 => {
            out.push_str("/wiki/");
            slug(h, 2 + h % 2, '_', out);
            out.push('_');
            number_to(id, out);
        }
        _ => {
            out.push('/');
            base36(mix(u64::from(url)) >> 24, out);
            base36(url.into(), out);
        }
    }
}

fn word(h: u64) -> &'static str {
    WORDS[h as usize % WORDS.len()]
}

fn slug(h: u64, words: u64, between: char, out: &mut String) {
    for i in 0..words {
        if i > 0 {
            out.push(between);
        }
        out.push_str(word(h >> (8 + 9 * i)));
    }
}

fn push_date(day: u64, out: &mut String) {
    let (year, month, day) = (2008 + day / 365 % 18, 1 + day % 365 / 31, 1 + day % 28);
    for number in [year, month, day] {
        out.push('/');
        if number < 10 {
            out.push('0');
        }
        number_to(number, out);
    }
    out.push('/');
}

fn number_to(number: u64, out: &mut String) {
    digits(number, 10, out);
}

fn base36(number: u64, out: &mut String) {
    digits(number, 36, out);
}

fn digits(mut number: u64, base: u64, out: &mut String) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = DIGITS[(number % base) as usize];
        number /= base;
        if number == 0 {
            break;
        }
    }
    out.extend(buffer[at..].iter().map(|digit| char::from(*digit)));
}

const HOSTS: [&str; 8] = ["blog", "shop", "m", "news", "static", "forum", "en", "support"];
const TLDS: [&str; 10] = [".com", ".org", ".net", ".de", ".co.uk", ".fr", ".info", ".com.br", ".io", ".pl"];
const WORDS: [&str; 128] = [
    "amber", "anchor", "apple", "arrow", "autumn", "bakery", "basket", "beach", "berry", "birch", "blossom",
    "bottle", "bridge", "bright", "brook", "butter", "cabin", "candle", "canyon", "carbon", "castle",
    "cedar", "cellar", "cherry", "circle", "clever", "cloud", "clover", "copper", "coral", "cotton",
    "cradle", "crystal", "dawn", "delta", "desert", "diamond", "double", "dream", "driver", "eagle", "early",
    "ember", "engine", "evening", "fabric", "falcon", "family", "farmer", "feather", "field", "finger",
    "flame", "forest", "frost", "garden", "gentle", "ginger", "glass", "golden", "granite", "guide",
    "guitar", "hammer", "harbor", "harvest", "hazel", "hidden", "honey", "house", "island", "ivory",
    "jacket", "jasmine", "journey", "kettle", "kitchen", "ladder", "lantern", "lemon", "letter", "light",
    "lily", "maple", "marble", "market", "meadow", "mirror", "modern", "moon", "morning", "mountain",
    "museum", "nature", "needle", "night", "oak", "ocean", "olive", "orange", "orchard", "paper", "pearl",
    "pepper", "pine", "planet", "pocket", "prairie", "quiet", "rabbit", "rain", "raven", "ribbon", "river",
    "rocket", "rose", "saddle", "sail", "silver", "simple", "stone", "summer", "sunset", "thunder", "timber",
    "valley", "velvet", "winter",
];
