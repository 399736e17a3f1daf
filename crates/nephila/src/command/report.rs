//! The end report of a crawl.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nephila_core::spider::Outcome;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;

use nephila_engine::crawl::ending::{End, Left};
use nephila_engine::crawl::held::waiting as waiting_for;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::work::name;
use nephila_engine::human::{count, size};

/// Prints the end report.
pub(crate) fn report(shared: &Shared, end: &End, left: &Left, quiet: bool) {
    if quiet {
        return;
    }
    let mut out = String::new();
    say(shared, end, left, &mut out).expect("a string takes text");
    // Standard error may be closed.
    _ = std::io::stderr().write_all(out.as_bytes());
}

fn say(shared: &Shared, end: &End, left: &Left, out: &mut String) -> std::fmt::Result {
    let counts = &shared.counts;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let what = match end {
        End::Done => "done".to_owned(),
        End::Waited(_) => {
            let wait_max = humantime::format_duration(shared.settings.crawl.wait_max);
            format!("stopped waiting after {wait_max} (crawl.wait_max)")
        }
        End::SeedFailed => "stopped: a seed could not be fetched".into(),
        End::Limit(limit) => format!("stopped at the {}", name(*limit, &shared.limits())),
        End::TooManyFailures => "stopped: too many failures".into(),
        End::Stopped => "stopped".into(),
        End::StoppedHard => "stopped at once".into(),
        End::Failed(_) => "failed".into(),
    };
    let took = humantime::format_duration(Duration::from_secs(counts.began.elapsed().as_secs()));
    let pages = counts.pages();
    let noun = if pages == 1 { "page" } else { "pages" };
    write!(out, "{what}: {} {noun} in {took}, {} received", count(pages), size(get(&counts.bytes)))?;
    if get(&counts.revisits) > 0 {
        write!(
            out,
            ", {} of them known already ({} revisits)",
            size(get(&counts.revisit_bytes)),
            count(get(&counts.revisits))
        )?;
    }
    writeln!(out)?;
    let others = [
        (get(&counts.lists), "sitemaps and feeds"),
        (get(&counts.files), "images and other files"),
        (get(&counts.redirects), "redirects"),
        (get(&counts.gone), "not found"),
        (get(&counts.refused), "refused by the site"),
        (get(&counts.failed), "failed"),
        (get(&counts.robots), "robots.txt"),
    ];
    line(out, "also", &others)?;
    if get(&counts.reread) > 0 {
        let (pages, urls) = (count(get(&counts.reread)), count(get(&counts.reread_found)));
        writeln!(out, "  read again:  {pages} captures, {urls} URLs of them are new in scope")?;
    }
    let totals = left.stats.as_ref().map(|stats| &stats.totals);
    let denied = |end| end == Outcome::RobotsDenied;
    let not_fetched = [
        (get(&counts.links_out), "links out of scope"),
        (get(&counts.links_traps), "traps"),
        (totals.map_or(0, |totals| totals.all_jobs().ended_as(denied)), "closed by robots.txt"),
        (totals.map_or(0, |totals| totals.parked), "parked beyond a budget"),
    ];
    line(out, "not fetched", &not_fetched)?;
    if get(&counts.cut) > 0 {
        let (n, max) = (count(get(&counts.cut)), shared.settings.spider.body_bytes_max);
        writeln!(out, "  cut:         {n} bodies cut at {}: spider.body_bytes_max", binary_size(max))?;
    }
    let dir = shared.folder.dir().display();
    if left.seeds.failed > 0 {
        let (failed, all) = (count(left.seeds.failed), count(left.seeds.all));
        writeln!(out, "  seeds:       {failed} of {all} could not be fetched")?;
        for (url, why) in &left.seeds.named {
            writeln!(out, "               {}: {}", shown(url), shown(why))?;
        }
        let more = left.seeds.failed - left.seeds.named.len() as u64;
        if more > 0 {
            writeln!(out, "               and {} more: nephila report seeds -o {dir}", count(more))?;
        }
    }
    if left.tries.0 > 0 {
        let when = left.tries.1.map(|next| format!(", the next at {}", Timestamp::from(next).warc_date()));
        writeln!(
            out,
            "  later:       {} URLs that failed are to be tried again{}; `nephila crawl -o {dir}` goes on",
            count(left.tries.0),
            when.unwrap_or_default()
        )?;
    }
    let waiting = totals.map_or(0, |totals| totals.waiting);
    let planned = totals.map_or(0, |totals| totals.later).saturating_sub(left.tries.0);
    match end {
        End::Done if waiting > 0 => {
            writeln!(
                out,
                "  left:        {} URLs of hosts that are stopped: nephila stop list -o {dir}",
                count(waiting)
            )?;
        }
        End::Done => {}
        _ => {
            writeln!(out, "  left:        {} URLs queued; `nephila crawl -o {dir}` goes on", count(waiting))?;
        }
    }
    if let End::Waited(held) = end
        && let Some(text) = waiting_for(shared, held)
    {
        writeln!(out, "               {text}")?;
    }
    if planned > 0 {
        writeln!(out, "  planned:     {} URLs are due again later", count(planned))?;
    }
    writeln!(out, "  look at it:  nephila report summary -o {dir}     nephila explain URL -o {dir}")
}

/// Counts with their names, without zeros.
fn line(out: &mut String, title: &str, counts: &[(u64, &str)]) -> std::fmt::Result {
    let some: Vec<_> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    if some.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {:<12} {}", format!("{title}:"), some.join(", "))
}

/// A limit as in the settings: in MiB if divisible.
fn binary_size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}
