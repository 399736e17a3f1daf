//! The `nephila` command.

use std::process::ExitCode;

use clap::Parser;
use nephila_engine::crawl::text::pdf;

// Its settings, and why it is this one: `nephila::memory`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Argument of the child process that reads a PDF.
const PDF_CHILD: &str = "pdf-child";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == PDF_CHILD) {
        return pdf::child();
    }
    if let Ok(program) = std::env::current_exe() {
        pdf::set_reader(program, PDF_CHILD);
    }
    nephila_engine::private::keep_private();
    nephila::memory::keep_pages_small();
    nephila::run(nephila::cli::Cli::parse())
}
