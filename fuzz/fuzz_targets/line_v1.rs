//! Lines of spiders of version 1, both sides: any bytes are lines or named errors, any split into chunks gives the same
//! lines, and what is read, written again, gives the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::remote::line::{Dialect, LINE_BYTES_MAX, LineError, Lines, Reply, UrlLine};

fuzz_target!(|data: &[u8]| {
    let whole = cut(data.chunks(data.len().max(1)));
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 64;
    assert_eq!(cut(data.chunks(step)), whole, "the chunks change the lines");
    assert_eq!(cut(data.chunks(1)), whole, "single bytes change the lines");
    whole.0.iter().flatten().for_each(|line| check(line));
    check(data);

    nephila_fuzz::linear(data, |data| {
        let (lines, _) = cut(data.chunks(1_000));
        lines.iter().flatten().for_each(|line| _ = (Reply::read(line), UrlLine::read(line).is_ok()));
    });
});

fn cut<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Result<Vec<u8>, LineError>>, usize) {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for chunk in chunks {
        lines.push(chunk, |line| found.push(line.map(<[u8]>::to_vec)));
        assert!(lines.unfinished() <= LINE_BYTES_MAX);
    }
    (found, lines.unfinished())
}

fn check(line: &[u8]) {
    if let Ok(reply) = Reply::read(line) {
        let orders = [Dialect::Push, Dialect::Pull].map(|dialect| reply.to_line(dialect));
        assert!(orders.iter().any(|order| is_line(order, line)), "{reply:?} is written otherwise");
    }
    // A line that is too long for a connection is never written.
    if let Ok(url) = UrlLine::read(line)
        && line.len() <= LINE_BYTES_MAX
    {
        assert!(is_line(&url.to_line().expect("what was read can be written"), line));
    }
}

fn is_line(written: &str, line: &[u8]) -> bool {
    written.strip_suffix('\n').map(str::as_bytes) == Some(line)
}
