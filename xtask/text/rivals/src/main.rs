//! Runs one of the text extractors of others over a folder of pages, for the comparison in `docs/text.md`.
//!
//! Usage: `rivals NAME FOLDER OUT`, with one of the names in `main`. The folder contains files `ID.html.gz`. The output is a
//! JSON object that maps each ID to its text and to the CPU time of the extraction in milliseconds.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Bounds of `dom_smoothie`, the extractor before `nephila-text`.
#[allow(dead_code)]
mod tree;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder, out] = &arguments[..] else { panic!("rivals NAME FOLDER OUT") };
    let extract: fn(&str) -> String = match name.as_str() {
        "today" => today,
        "rs-trafilatura" => |html| rs_trafilatura::extract(html).map(|found| found.content_text).unwrap_or_default(),
        "trafilatura" => |html| trafilatura_with(html, trafilatura::Options::default().with_fallback(true)),
        "trafilatura-recall" => |html| {
            let options = trafilatura::Options::default().with_fallback(true);
            trafilatura_with(html, options.with_focus(trafilatura::ExtractionFocus::FavorRecall))
        },
        _ => panic!("no such extractor: {name}"),
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut texts = serde_json::Map::new();
    for file in files {
        let (id, html) = read(&file);
        let began = cpu();
        let text = extract(&html);
        let took = cpu() - began;
        texts.insert(id, serde_json::json!({ "text": text, "ms": took.as_secs_f64() * 1e3 }));
    }
    std::fs::write(out, serde_json::to_vec(&texts).unwrap()).unwrap();
}

fn read(file: &Path) -> (String, String) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut bytes).unwrap();
    (name.trim_end_matches(".html.gz").to_owned(), String::from_utf8_lossy(&bytes).into_owned())
}

/// CPU time of the process so far.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local value.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn trafilatura_with(html: &str, options: trafilatura::Options) -> String {
    trafilatura::extract(html, &options).map(|found| found.content_text).unwrap_or_default()
}

/// As `nephila_engine::crawl::text::read` does.
fn today(html: &str) -> String {
    let found = || {
        let page = tree::build(html)?;
        let text_mode = dom_smoothie::TextMode::Formatted;
        let config = dom_smoothie::Config { text_mode, ..dom_smoothie::Config::default() };
        let mut reader = dom_smoothie::Readability::with_document(page, None, Some(config)).ok()?;
        if reader.get_article_metadata(reader.parse_json_ld()).title.len() > 2_000 {
            return None;
        }
        let text = reader.parse().ok()?.text_content.trim().to_owned();
        (text.chars().take(80).count() == 80).then_some(text)
    };
    found().unwrap_or_default()
}

/// Returns the longest prefix of at most `bytes_max` bytes that ends at a character boundary.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
