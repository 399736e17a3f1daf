//! Writes the features of the blocks of a folder of pages, for `xtask/text/train.py`.
//!
//! Usage: `text_rows FOLDER URLS CHANCES OUT`. The folder contains files `ID.html.gz`, `URLS` is a JSON object from ID to
//! address. `CHANCES` is empty (`-`) for the kinds and texts of pages, or a JSON object from ID to nothing or, for the second
//! look, to the chances of its blocks. The output is a sequence of records: length of JSON, JSON, rows of 32-bit floats.

use std::io::{Read, Write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, urls, chances, out] = &arguments[..] else { panic!("text_rows FOLDER URLS CHANCES OUT") };
    let json =
        |file: &str| -> serde_json::Value { serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap() };
    let urls = json(urls);
    let chances = (chances != "-").then(|| json(chances));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut out = std::io::BufWriter::new(std::fs::File::create(out).unwrap());
    for file in files {
        let id = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".html.gz").to_owned();
        let Some(url) = urls.get(&id).and_then(|url| url.as_str()) else { continue };
        let mut bytes = Vec::new();
        flate2::read::MultiGzDecoder::new(std::fs::File::open(&file).unwrap())
            .read_to_end(&mut bytes)
            .unwrap();
        let look = nephila_text::Look::at(&String::from_utf8_lossy(&bytes), url);
        let list = |value: &serde_json::Value| -> Vec<f32> {
            value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
        };
        let (width, values, note) = match &chances {
            None => {
                (0, Vec::new(), serde_json::json!({ "id": id, "kinds": look.kinds(), "texts": look.texts() }))
            }
            Some(chances) => {
                let first = chances[&id].get("first").map(list);
                let (width, values) = look.matrix(&look.kinds(), first.as_deref());
                (width, values, serde_json::json!({ "id": id }))
            }
        };
        let note = serde_json::to_vec(&note).unwrap();
        for number in [note.len(), width, values.len()] {
            out.write_all(&(number as u32).to_le_bytes()).unwrap();
        }
        out.write_all(&note).unwrap();
        for value in values {
            out.write_all(&value.to_le_bytes()).unwrap();
        }
    }
    out.flush().unwrap();
}
