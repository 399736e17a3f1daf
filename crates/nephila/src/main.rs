//! The `nephila` command.

use std::process::ExitCode;

use clap::Parser;

// A crawler makes and drops many small buffers on several threads; this allocator returns memory and stays small.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    nephila::private::keep_private();
    nephila::memory::return_freed_soon();
    nephila::run(nephila::cli::Cli::parse())
}
