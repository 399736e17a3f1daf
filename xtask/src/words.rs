//! `cargo xtask words`: indefinite words per 1,000 words of our texts. A sentence full of them has to be guessed.
//!
//! Counted are `who`, `whoever`, `what`, `it`, `those`, `nobody`, `somebody`, `so many`, `any more` and `at hand`, in
//! documentation comments, in the help of the program (the documentation comments of its command line) and in the manual. Code
//! in fences, in indented blocks and between backticks is left out.
//!
//! Invariant: the tidy test of the same name fails when a kind of text exceeds its limit.

use crate::tree::files;

/// The words.
const WORDS: [&str; 7] = ["who", "whoever", "what", "it", "those", "nobody", "somebody"];
/// The pairs of words.
const PAIRS: [(&str, &str); 3] = [("so", "many"), ("any", "more"), ("at", "hand")];

/// A kind of text, and the indefinite words that it may have per 1,000.
const KINDS: [(Kind, &str, f64); 3] = [
    (Kind::Comments, "documentation comments", 15.0),
    (Kind::Help, "help", 12.0),
    (Kind::Manual, "README and docs", 12.0),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Comments,
    Help,
    Manual,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    words: u64,
    indefinite: u64,
}

impl Count {
    fn plus(self, other: Count) -> Count {
        Count { words: self.words + other.words, indefinite: self.indefinite + other.indefinite }
    }

    fn per_thousand(self) -> f64 {
        1_000.0 * self.indefinite as f64 / (self.words as f64).max(1.0)
    }
}

/// Prints the figures; fails if a limit is exceeded.
pub(crate) fn run() -> anyhow::Result<()> {
    let files = files();
    let mut too_many = Vec::new();
    for (kind, name, limit) in KINDS {
        let count = count_all(&files, kind);
        let rate = count.per_thousand();
        println!(
            "words: {name}: {} of {} words, {rate:.1} per 1,000 (at most {limit})",
            count.indefinite, count.words
        );
        if rate > limit {
            too_many.push(name);
        }
    }
    anyhow::ensure!(too_many.is_empty(), "too many indefinite words in: {}", too_many.join(", "));
    Ok(())
}

fn count_all(files: &[(String, String)], kind: Kind) -> Count {
    let of_kind = files.iter().filter(|(path, _)| kinds_of(path).contains(&kind));
    of_kind.map(|(path, text)| count(&prose(path, text))).fold(Count::default(), Count::plus)
}

/// The kinds of text that a file has.
fn kinds_of(path: &str) -> &'static [Kind] {
    let is_help = path == "crates/nephila/src/cli.rs" || path.starts_with("crates/nephila/src/cli/");
    let is_manual = path == "README.md" || path.starts_with("docs/");
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("rs") if is_help => &[Kind::Comments, Kind::Help],
        Some("rs") => &[Kind::Comments],
        Some("md") if is_manual => &[Kind::Manual],
        _ => &[],
    }
}

/// The sentences of a file: the documentation comments of a program, all text of a manual.
fn prose(path: &str, text: &str) -> String {
    let is_code = path.ends_with(".rs");
    let (mut out, mut in_fence) = (String::new(), false);
    for line in text.lines() {
        let line = match is_code {
            true => {
                let line = line.trim_start();
                let said = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
                let Some(said) = said else {
                    in_fence = false;
                    continue;
                };
                said.strip_prefix(' ').unwrap_or(said)
            }
            false => line,
        };
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && !line.starts_with("    ") {
            out.push_str(&line.split('`').step_by(2).collect::<Vec<_>>().join(" X "));
            out.push('\n');
        }
    }
    out
}

fn count(prose: &str) -> Count {
    let is_part = |c: char| c.is_alphanumeric() || "'’-".contains(c);
    let words: Vec<String> = prose
        .split(|c: char| !is_part(c))
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(str::to_lowercase)
        .collect();
    let single = words.iter().filter(|word| WORDS.contains(&&***word)).count();
    let pairs = words.windows(2).filter(|pair| PAIRS.contains(&(&*pair[0], &*pair[1]))).count();
    Count { words: words.len() as u64, indefinite: (single + pairs) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_texts_say_who_and_what() {
        run().unwrap();
    }

    #[test]
    fn planted_riddles_are_counted_and_code_is_not() {
        let code = "//! Whoever asks is told what it was.\n/// ```\n/// it it it\n/// ```\n/// A `what` of so\n/// many\nlet it = 1;\n";
        assert_eq!(count(&prose("a.rs", code)), Count { words: 12, indefinite: 4 });
        let manual = "# Nobody\n\n    what it is\n\n```\nwho\n```\nA host at hand, not any more.\n";
        assert_eq!(count(&prose("docs/a.md", manual)), Count { words: 8, indefinite: 3 });
        assert!(
            count_all(&[("crates/a/src/b.rs".into(), code.into())], Kind::Comments).per_thousand() > 15.0
        );
        assert_eq!(kinds_of("crates/nephila/src/cli/crawl.rs"), [Kind::Comments, Kind::Help]);
    }
}
