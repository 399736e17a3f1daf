//! The alerts on a faster clock: every duration and every threshold of an age is divided by a factor.
//!
//! What changes: durations of PromQL and YAML (`5m`, `1h`), the seconds with which an age is compared
//! (`…_seconds > 3600`), and the seconds of a forecast (`4 * 3600`). Shares, names, labels and texts stay. A duration that is no
//! whole number of milliseconds any more is an error, so nothing is rounded.

use anyhow::{Context, Result, ensure};

/// Units of durations, in seconds.
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
/// Seconds of an hour, as forecasts write it.
const HOUR: &str = "* 3600";
/// Before a threshold of an age.
const AGE: &str = "_seconds > ";

/// The rules with all times divided, and what was changed: before and after.
pub(super) fn faster(rules: &str, factor: u64) -> Result<(String, Vec<(String, String)>)> {
    ensure!(factor > 0, "a factor is 1 or more");
    let mut changes = Vec::new();
    let mut lines = Vec::new();
    for line in rules.lines() {
        let text = line.trim_start();
        // Comments, and what is only shown to people.
        let is_text = ["#", "summary:", "runbook:"].iter().any(|begin| text.starts_with(begin));
        let scaled = if is_text { line.to_owned() } else { scale(line, factor, &mut changes)? };
        lines.push(scaled);
    }
    Ok((lines.join("\n") + "\n", changes))
}

fn scale(line: &str, factor: u64, changes: &mut Vec<(String, String)>) -> Result<String> {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let follows_a_word = out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = if follows_a_word {
            None
        } else if is_number && (out.ends_with(AGE) || format!("{out}{word}").ends_with(HOUR)) {
            Some((word.parse::<u64>().context("a number of seconds")?, false))
        } else {
            duration(word).map(|seconds| (seconds, true))
        };
        match seconds {
            Some((seconds, is_duration)) => {
                let scaled = divided(seconds, factor, is_duration).with_context(|| line.to_owned())?;
                changes.push((word.to_owned(), scaled.clone()));
                out.push_str(&scaled);
            }
            None => out.push_str(word),
        }
        rest = after;
    }
    Ok(out + rest)
}

/// The seconds of a word such as `5m`.
fn duration(word: &str) -> Option<u64> {
    let (unit, seconds) = UNITS.iter().find(|(unit, _)| word.ends_with(*unit))?;
    Some(word.strip_suffix(*unit)?.parse::<u64>().ok()? * seconds)
}

fn divided(seconds: u64, factor: u64, is_duration: bool) -> Result<String> {
    let millis = seconds * 1_000;
    ensure!(millis.is_multiple_of(factor), "{seconds} s cannot be divided by {factor}");
    let millis = millis / factor;
    let whole = millis.is_multiple_of(1_000);
    Ok(match (is_duration, whole) {
        (true, true) => format!("{}s", millis / 1_000),
        (true, false) => format!("{millis}ms"),
        (false, true) => (millis / 1_000).to_string(),
        (false, false) => (millis as f64 / 1_000.0).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> String {
        std::fs::read_to_string(crate::shell::root().join("deploy/prometheus/alerts.yml")).unwrap()
    }

    #[test]
    fn every_duration_and_age_of_the_shipped_rules_is_divided_and_nothing_else() {
        let rules = shipped();
        let (fast, changes) = faster(&rules, 60).unwrap();
        let changes: Vec<String> = changes.iter().map(|(from, to)| format!("{from} {to}")).collect();
        let expected = [
            ["10m 10s", "10m 10s"].as_slice(),  // Impolite
            &["5m 5s", "5m 5s"],                // Stalled
            &["10m 10s", "10m 10s", "10m 10s"], // Blocked
            &["1h 60s"],                        // FeedsQuiet
            &["30m 30s", "3600 60", "5m 5s"],   // DiskFills
            &["3600 60", "5m 5s"],              // UploadLag
            &["300 5", "5m 5s"],                // IntakeLag
            &["600 10", "5m 5s"],               // WebhookFails
        ];
        assert_eq!(changes, expected.concat());
        // Line by line, what differs are these words alone.
        let mut undone = changes.iter().map(|change| change.split_once(' ').unwrap());
        for (one, two) in rules.lines().zip(fast.lines()) {
            let mut back = two.to_owned();
            let mut at = 0;
            while back != one {
                let (from, to) = undone.next().unwrap_or_else(|| panic!("{two} was {one}"));
                let found = at + back[at..].find(to).unwrap();
                back.replace_range(found..found + to.len(), from);
                at = found + from.len();
            }
        }
        assert_eq!(undone.next(), None);
        assert_eq!(rules.lines().count(), fast.lines().count());
    }

    #[test]
    fn shares_labels_and_names_stay() {
        let line = "expr: sum(a_5m{outcome=~\"429|5xx\"}[10m]) / b{state=\"1h2\"} > 0.2";
        let (fast, changes) = faster(line, 60).unwrap();
        assert_eq!(fast.trim_end(), line.replace("[10m]", "[10s]"));
        assert_eq!(changes.len(), 1);
        let summary = "summary: \"full within 4h\"";
        assert_eq!(faster(summary, 60).unwrap().0.trim_end(), summary);
    }

    #[test]
    fn a_time_that_would_be_rounded_is_an_error() {
        assert_eq!(faster("for: 5m", 8).unwrap().0, "for: 37500ms\n");
        assert_eq!(faster("a_seconds > 300", 8).unwrap().0, "a_seconds > 37.5\n");
        assert!(faster("for: 1s", 7).is_err());
        assert!(faster("for: 1s", 0).is_err());
    }
}
