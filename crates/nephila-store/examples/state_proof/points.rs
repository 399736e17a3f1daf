//! Stops the machine at every call to its disk, in as many threads as there are cores.

use std::path::Path;
use std::time::Instant;

use nephila_store::state::proof::crash::{Figures, Mistake, Options, crash};

use super::Failure;

/// Runs it, once with the log in a safe place and once with the journal on the same disk.
pub fn run(folder: &Path, groups: u64, stride: u64) -> Result<(), Failure> {
    let begun = Instant::now();
    let threads = std::thread::available_parallelism()?.get() as u64;
    let mut sums = [Figures::default(); 2];
    for (journal, sum) in [false, true].into_iter().zip(&mut sums) {
        let results: Vec<Result<Figures, String>> = std::thread::scope(|scope| {
            let share = |thread: u64| {
                let folder = folder.join(format!("{journal}-{thread}"));
                let options = Options {
                    groups: groups as usize,
                    stride: stride * threads,
                    first: thread * stride,
                    journal,
                    background: false,
                    mistake: Mistake::None,
                };
                scope.spawn(move || crash(&folder, options))
            };
            let shares: Vec<_> = (0..threads).map(share).collect();
            shares.into_iter().map(|share| share.join().expect("crash() returns its errors")).collect()
        });
        for result in results {
            let figures = result?;
            sum.calls = figures.calls;
            sum.runs += figures.runs;
            sum.recoveries += figures.recoveries;
        }
    }
    let [state, both] = sums;
    println!(
        "state crash: state alone {} points, {} runs, {} stops while mending; with its journal {} points, {} runs, {} stops \
         while mending; all end as one that was never stopped; {:.0} s",
        state.calls.div_ceil(stride),
        state.runs,
        state.recoveries,
        both.calls.div_ceil(stride),
        both.runs,
        both.recoveries,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
