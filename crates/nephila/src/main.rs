//! The `nephila` command.

use std::process::ExitCode;

use clap::Parser;

// Its settings, and why it is this one: `nephila::memory`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    nephila_engine::private::keep_private();
    nephila::memory::keep_pages_small();
    nephila::run(nephila::cli::Cli::parse())
}
