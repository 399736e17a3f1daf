//! Extracts the texts of a folder of pages, for `xtask/text/measure.py`.
//!
//! Usage: `text_extract FOLDER URLS OUT`. The folder contains files `ID.html.gz`, `URLS` is a JSON object from ID to address.
//! The output is a JSON object from ID to the kind, the text and the CPU time of the extraction in milliseconds.

use std::io::Read;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, urls, out] = &arguments[..] else { panic!("text_extract FOLDER URLS OUT") };
    let urls: serde_json::Value = serde_json::from_slice(&std::fs::read(urls).unwrap()).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut texts = serde_json::Map::new();
    // The model is read once per process.
    nephila_text::extract("<p>warm", "");
    for file in files {
        let id = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".html.gz").to_owned();
        let mut bytes = Vec::new();
        flate2::read::MultiGzDecoder::new(std::fs::File::open(&file).unwrap())
            .read_to_end(&mut bytes)
            .unwrap();
        let html = String::from_utf8_lossy(&bytes);
        let began = cpu();
        let found =
            nephila_text::extract(&html, urls.get(&id).and_then(|url| url.as_str()).unwrap_or_default());
        let took = cpu() - began;
        let ms = took.as_secs_f64() * 1e3;
        texts.insert(id, serde_json::json!({ "kind": found.kind.name(), "text": found.text, "ms": ms }));
    }
    std::fs::write(out, serde_json::to_vec(&texts).unwrap()).unwrap();
}

/// CPU time of the process so far.
#[allow(unsafe_code)]
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local value.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
