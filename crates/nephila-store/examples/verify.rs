//! Checks WARC files or crawl folders strictly: one line per finding, one of figures; exits with 1 if there are any.
//!
//!     verify PATH...

use std::path::PathBuf;
use std::process::ExitCode;

use nephila_store::verify::verify_path;

fn main() -> ExitCode {
    let (mut findings, mut records) = (0, 0);
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        match verify_path(&path) {
            Ok(report) => {
                for f in &report.findings {
                    println!("{}:{}: {}: {}", f.file.display(), f.offset, f.kind, f.message);
                }
                findings += report.findings_total;
                records += report.records;
            }
            Err(error) => {
                println!("{}: {error}", path.display());
                findings += 1;
            }
        }
    }
    println!("{records} records, {findings} findings");
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
