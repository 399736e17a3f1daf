//! Prints how long the extraction of hostile pages takes, for pages of one, two and four megabytes.

#[path = "../src/tests/hostile.rs"]
mod hostile;

use std::time::Instant;

fn main() {
    let sizes = [1 << 20, 2 << 20, 4 << 20];
    nephila_text::extract("<p>warm", "");
    println!("| page | 1 MB, ms | 2 MB, ms | 4 MB, ms |");
    println!("|---|---:|---:|---:|");
    let names: Vec<&str> = hostile::hostile(10).iter().map(|(name, _)| *name).collect();
    for (at, name) in names.iter().enumerate() {
        print!("| {name} |");
        for size in sizes {
            let (_, html) = hostile::hostile(size).swap_remove(at);
            let began = Instant::now();
            nephila_text::extract(&html, "https://hostile.test/");
            print!(" {:.0} |", began.elapsed().as_secs_f64() * 1e3);
        }
        println!();
    }
}
