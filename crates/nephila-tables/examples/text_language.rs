//! Measures how often the language of a text is found.
//!
//! Usage: `text_language FOLDER NAME=CODE,…`. The folder contains a file `NAME.txt` for each code of ISO 639-3, with one
//! sentence per line. A text is five sentences in a row.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, codes] = &arguments[..] else { panic!("text_language FOLDER CODES") };
    let (mut right, mut all) = (0, 0);
    for (name, code) in codes.split(',').filter_map(|pair| pair.split_once('=')) {
        let file = std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
        let lines: Vec<&str> = file.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut wrong = std::collections::BTreeMap::new();
        let (mut own_right, mut own) = (0, 0);
        for part in lines.chunks_exact(5) {
            let found = nephila_tables::language::language(&part.join(" "));
            own += 1;
            if found == Some(code) {
                own_right += 1;
            } else {
                *wrong.entry(found.unwrap_or("none")).or_insert(0) += 1;
            }
        }
        println!("{code} {:.3} of {own} {wrong:?}", f64::from(own_right) / f64::from(own));
        right += own_right;
        all += own;
    }
    println!("all {:.4} of {all}", f64::from(right) / f64::from(all));
}
