//! Whole documents, each read in a child process. This program is its own child.

mod build;
mod hostile;
mod mutations;
mod process;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use nephila_pdf::{Error, Limits, Pdf, Reader};

/// A test and its name.
type Test = (&'static str, fn());

/// The argument that makes this program a child.
const CHILD: &str = "read-one-pdf";

/// Limits of the tests: smaller than the shipped ones, so that the tests are quick.
fn limits() -> Limits {
    let (cpu_max, wall_max) = (Duration::from_secs(2), Duration::from_secs(20));
    Limits { memory_max: 128 << 20, cpu_max, wall_max, text_max: 1 << 20, ..Limits::default() }
}

/// A reader whose child is this program.
fn reader(limits: Limits) -> Reader {
    Reader::new(std::env::current_exe().unwrap(), [CHILD], limits)
}

fn read(pdf: &[u8]) -> Result<Pdf, Error> {
    reader(limits()).read(pdf)
}

/// Runs the tests whose name contains an argument, or all. Understands what `cargo test` and `cargo nextest` ask for.
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == CHILD) {
        return nephila_pdf::child();
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let wanted: Vec<_> =
        arguments.iter().filter(|argument| !argument.starts_with('-') && *argument != "terse").collect();
    let is_wanted = |name: &str| {
        let matches =
            |wanted: &&String| if has("--exact") { name == *wanted } else { name.contains(wanted.as_str()) };
        !has("--ignored") && (wanted.is_empty() || wanted.iter().any(matches))
    };
    let tests: Vec<Test> = [text::TESTS, process::TESTS, hostile::TESTS, mutations::TESTS].concat();
    for (name, test) in tests.into_iter().filter(|(name, _)| is_wanted(name)) {
        if has("--list") {
            println!("{name}: test");
            continue;
        }
        let start = std::time::Instant::now();
        // A test that fails panics, which ends this program with a failure.
        test();
        process::assert_no_children();
        println!("test {name} ... ok ({:.2} s)", start.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}
