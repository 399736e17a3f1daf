//! Checks that every place that was discovered and not fetched has a reason, and that the crawler can name the reason.

use std::collections::BTreeMap;

use anyhow::Context;
use nephila_testweb::model::{Place, Reach, Truth, World};

use crate::crawler::Crawler;
use crate::judge::Verdict;

/// URLs asked about at once.
const AT_ONCE: usize = 100;
/// Answers of one kind that are shown when they are wrong.
const SHOWN_MAX: usize = 5;

/// Asks about a sample of each kind of place that is no page: `nephila explain` must know every one of them, and must
/// not call any of them fetched. Returns the number of questions, by kind and by answer.
pub fn check(
    verdict: &mut Verdict,
    crawler: &Crawler,
    world: &World,
    truth: &Truth,
    sample: usize,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut kinds: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for (place, reach) in truth.iter() {
        if let Some(kind) = kind(reach) {
            kinds.entry(kind).or_default().push(place);
        }
    }
    let dir = crawler.dir().display().to_string();
    let mut answers = BTreeMap::new();
    for (kind, mut places) in kinds {
        places.sort_unstable();
        let step = places.len().div_ceil(sample.max(1)).max(1);
        let urls: Vec<String> = places.iter().step_by(step).map(|place| world.url(*place)).collect();
        let mut wrong = Vec::new();
        for some in urls.chunks(AT_ONCE) {
            let mut args = vec!["explain", "--json", "-o", &dir];
            args.extend(some.iter().map(String::as_str));
            // Exit code 1 says that some of them are not fetched, as intended here.
            let (_, said) = crawler.ask(&args)?;
            let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
            verdict.expect(lines.len() == some.len(), || {
                format!("explain: {} answers to {} questions about {kind} places", lines.len(), some.len())
            });
            for (url, line) in some.iter().zip(lines) {
                let answer: serde_json::Value =
                    serde_json::from_str(line).with_context(|| line.to_owned())?;
                let summary = answer["summary"].as_str().unwrap_or("unknown").to_owned();
                if !fits(kind, &summary) {
                    wrong.push(format!("{url}: {summary}"));
                }
                let because =
                    answer["last"]["outcome"].as_str().map_or(String::new(), |last| format!(", {last}"));
                *answers.entry(format!("{kind}: {summary}{because}")).or_default() += 1;
            }
        }
        wrong.truncate(SHOWN_MAX);
        verdict.expect(wrong.is_empty(), || format!("no reason for {kind} places: {}", wrong.join("; ")));
    }
    Ok(answers)
}

fn kind(reach: Reach) -> Option<&'static str> {
    match reach {
        Reach::Page | Reach::Redirect => None,
        Reach::Error(_) => Some("error"),
        Reach::OutOfScope => Some("out-of-scope"),
        Reach::Disallowed => Some("disallowed"),
        Reach::Dead => Some("dead"),
        Reach::Tarpit => Some("tarpit"),
    }
}

/// Whether an answer is one that such a place can have.
fn fits(kind: &str, summary: &str) -> bool {
    match (kind, summary) {
        (_, "unknown") => false,
        ("out-of-scope", summary) => summary == "out-of-scope",
        // Closed by robots.txt, or a robots.txt that cannot be had: the place waits for one.
        ("disallowed", summary) => summary != "fetched",
        _ => true,
    }
}
