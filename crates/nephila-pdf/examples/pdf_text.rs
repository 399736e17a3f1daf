//! Prints the text of PDF files, each read in a child process: `pdf_text [--quiet] FILE...`.
//!
//! With `--quiet` only one line for each file: what came of it, the size of the text, and the time.

use std::process::ExitCode;
use std::time::Instant;

use nephila_pdf::{Limits, Reader};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "child") {
        return nephila_pdf::child();
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let reader = Reader::new(program, ["child"], Limits::default());
    let is_quiet = arguments.iter().any(|argument| argument == "--quiet");
    for path in arguments.iter().filter(|argument| !argument.starts_with("--")) {
        let pdf = match std::fs::read(path) {
            Ok(pdf) => pdf,
            Err(error) => {
                eprintln!("{path}: {error}");
                continue;
            }
        };
        let start = Instant::now();
        let read = reader.read(&pdf);
        let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
        match read {
            Ok(pdf) if is_quiet => {
                let (size, read, pages) = (pdf.text.len(), pdf.pages_read, pdf.pages);
                let cut = pdf.cut.map(|cut| format!(", cut: {cut:?}")).unwrap_or_default();
                println!("{path}\t{read} of {pages} pages, {size} bytes{cut}\t{milliseconds:.1} ms");
            }
            Ok(pdf) => {
                println!("{}", pdf.text);
                eprintln!(
                    "{path}: {:?}, {} of {} pages, {milliseconds:.1} ms",
                    pdf.title, pdf.pages_read, pdf.pages
                );
            }
            Err(error) if is_quiet => println!("{path}\t{error}\t{milliseconds:.1} ms"),
            Err(error) => eprintln!("{path}: {error}, {milliseconds:.1} ms"),
        }
    }
    ExitCode::SUCCESS
}
