//! The docs page about robots.txt: `docs/robots.md`.
//!
//! Invariants: every figure on the page is a constant of the code, the table of answers is computed by [`in_force`]
//! itself, and the cases are the ones that the tests run.

use std::fmt::Write;
use std::time::Duration;

use super::{
    CRAWL_DELAY_MAX, Denied, NOTES_MAX, Policy, REDIRECTS_MAX, REFETCH_AFTER_MAX, REFETCH_AFTER_MIN,
    ROBOTS_BYTES_MAX, RobotsResult, SITEMAPS_MAX, Settings, UNREACHABLE_MAX, in_force,
};

/// The cases, as a table with tabs. `tests/cases.rs` describes the format and runs the cases.
pub(super) const CASES: &str = include_str!("cases.tsv");

/// Maximum number of characters of a cell in the table of cases.
const CELL_CHARS_MAX: usize = 160;

/// The docs page, in Markdown. `cargo xtask docs` writes it and CI compares.
pub fn docs_page() -> String {
    let mut page = String::from(INTRODUCTION);
    answers(&mut page);
    page.push_str(&reading());
    cases(&mut page);
    page
}

const INTRODUCTION: &str = "\
# robots.txt

How Nephila reads and obeys robots.txt ([RFC 9309](https://www.rfc-editor.org/rfc/rfc9309)), with our choice wherever the \
RFC leaves one. Where it is silent we do what Google's parser does; where a file is sloppy we take the reading that \
forbids more. This page is generated from `crates/nephila-core/src/robots/` by `cargo xtask docs`; do not edit it.

A file speaks for one scheme, name and port. It is asked for before anything else there, and it is obeyed for every \
request: pages, feeds, sitemaps, icons, and each hop of a redirect. What is checked is the path and query that will be \
sent, after dot segments and escapes have been made uniform. `/robots.txt` itself is always allowed.

## What an answer means

";

/// How each answer to the request for a robots.txt is taken, as [`in_force`] says.
fn answers(page: &mut String) {
    let _ = writeln!(
        page,
        "| answer | without an older copy | with an older copy | without one, after {} days, if the operator allows it | \
         without one, if 401 and 403 shall forbid |\n|---|---|---|---|---|",
        days(UNREACHABLE_MAX)
    );
    let mut from = 100;
    while from <= 599 {
        let meaning = meaning(RobotsResult::Status(from));
        let to = (from..=599)
            .take_while(|s| self::meaning(RobotsResult::Status(*s)) == meaning)
            .last()
            .unwrap_or(from);
        let name = if from == to { from.to_string() } else { format!("{from} to {to}") };
        row(page, &name, meaning);
        from = to + 1;
    }
    row(page, "any other status", meaning(RobotsResult::Status(999)));
    row(
        page,
        &format!("more than {REDIRECTS_MAX} redirects, or a circle"),
        meaning(RobotsResult::RedirectLimit),
    );
    row(
        page,
        "no whole answer: no name, no connection, no TLS, too slow, cut off, an address we do not dial",
        meaning(RobotsResult::Unreachable),
    );
    page.push_str(
        "\n\"The rules in it\" of something that is no robots.txt, such as an HTML page, are none: everything is allowed. A \
         redirect without a usable target is its own status. In a cluster a redirect to a host of another node is followed \
         by that node, which sends back what came. 429 and 503 also say when to ask again (`Retry-After`); until \
         then nothing is fetched from the host.\n\n",
    );
}

/// In force after an answer: without a copy, with one, after [`UNREACHABLE_MAX`] with the operator's consent, and with
/// [`Denied::Disallow`].
fn meaning(answer: RobotsResult) -> [Policy; 4] {
    let usual = Settings::default();
    let patient = Settings { unreachable_then_allow: true, ..usual };
    let strict = Settings { denied: Denied::Disallow, ..usual };
    [
        in_force(answer, false, Duration::ZERO, &usual),
        in_force(answer, true, Duration::ZERO, &usual),
        in_force(answer, false, UNREACHABLE_MAX, &patient),
        in_force(answer, false, Duration::ZERO, &strict),
    ]
}

fn row(page: &mut String, name: &str, meaning: [Policy; 4]) {
    let words = meaning.map(|policy| match policy {
        Policy::Rules => "the rules in it",
        Policy::LastRules => "the rules of the copy",
        Policy::AllowAll => "everything allowed",
        Policy::DisallowAll => "nothing allowed",
    });
    let _ = writeln!(page, "| {name} | {} |", words.join(" | "));
}

fn days(time: Duration) -> u64 {
    time.as_secs() / (24 * 3_600)
}

fn reading() -> String {
    let minutes = |d: Duration| d.as_secs() / 60;
    format!(
        "\
## How long a copy is used

As long as its `Cache-Control: max-age` says, but at least {refetch_min} minutes and at most {refetch_max} hours. When it \
cannot be fetched again, the last good copy stays in force (RFC 9309, 2.4). When there has been no answer for \
{unreachable} days and there is no copy, the setting `unreachable_then_allow` decides; by default nothing is allowed.

## Which rules are ours

- The **groups** that name our product token, all of them together, wherever they stand. If there is none, those for `*`. \
  If there is none either, everything is allowed. A group that names us replaces the one for everybody, even when it is \
  empty.
- A **product token** is letters, `-` and `_`. It is compared whole and without case; a version or anything else behind it \
  is ignored. `nephila-news` is not `nephila`. Our token is what the settings say, never a word of the `User-Agent` field.
- A `User-agent` line behind a **rule** begins a new group, also when the rule is empty. Nothing else ends a group: no blank \
  line, no comment, no `Crawl-delay`, no `Sitemap`, no unknown line.
- Rules before the first `User-agent` line speak to nobody.

## Which rule decides

The one with the most octets of those that match; if two are equally long, `Allow`. The order of lines does not matter. \
If no rule matches, the path is allowed. `*` and `$` count as octets. An empty rule matches nothing and clears nothing.

- A rule begins with `/` or `*` and matches from the start of path and query. Any other rule matches nothing.
- `*` stands for any characters, `/` and `?` among them, or none. `$` at the end of a rule stands for the end of the URL; \
  anywhere else it is plain text. `%2A` and `%24` are always plain text.
- Letters keep their case.

Both sides are compared in one form (RFC 9309, 2.2.2): escapes of unreserved characters decoded (`%62` is `b`), what may not \
stand in a URL encoded (`ツ` is `%E3%83%84`), hex in upper case, reserved characters as written (`%2F` is not `/`). Octets \
are counted in this form. Behind the question mark `: / ? @ [ ]` and their escapes are the same, as the RFC's table has it \
(`?u=https://h` is `?u=https%3A%2F%2Fh`); a rule matches if it does with or without this. A `%` that begins no escape is \
data, as if it were `%25`.

## Sloppy files

- Lines end with CR, LF or both. Keys have no case; blanks around keys and values do not count, and neither do zero bytes.
- A byte order mark is skipped; UTF-16 with a mark is understood. Bytes that are no UTF-8 are compared as bytes.
- `Dissallow`, `Dissalow`, `Disalow`, `Diasllow`, `Disallaw`, `Dis-allow` are `Disallow`; `Useragent`, `User agent`, \
  `User_agent` are `User-agent`. A colon may be missing where two words are left. `Allow` must be spelled.

## Limits

| what | limit | beyond it |
|---|---|---|
| size of the file | {bytes} bytes ({kib} KiB) | the rest is not read, and the line that the limit cuts is dropped |
| redirects to it | {redirects} | the file counts as missing |
| `Crawl-delay` | {delay} s | `nephila fetch` refuses the host; a crawl waits as long as it is asked to, and `explain` says so |
| `Sitemap` lines | {sitemaps} | the rest is ignored |
| lines about the use of content | {notes} | the rest is not recorded |
| time for a verdict | linear in the rules and the URL, whatever the wildcards | |

`Crawl-delay` is in seconds and may have a fraction. The longest of our group counts. It makes us slower than our own \
delay, never faster; what is no number from zero up is ignored. `Content-Usage`, `Content-Signal`, `License`, `LLM-Policy` \
and `tdm-` lines are recorded and change nothing about fetching.

",
        refetch_min = minutes(REFETCH_AFTER_MIN),
        refetch_max = minutes(REFETCH_AFTER_MAX) / 60,
        unreachable = days(UNREACHABLE_MAX),
        bytes = ROBOTS_BYTES_MAX,
        kib = ROBOTS_BYTES_MAX / 1_024,
        redirects = REDIRECTS_MAX,
        delay = CRAWL_DELAY_MAX.as_secs(),
        sitemaps = SITEMAPS_MAX,
        notes = NOTES_MAX,
    )
}

fn cases(page: &mut String) {
    let rows = || CASES.lines().skip(1).map(|line| line.split('\t'));
    let _ = write!(
        page,
        "## Cases\n\nAll {} are run by the tests against our reader; those about a path also against a second reader that \
         shares no code with it. Sources: sections of RFC 9309, Google's documentation, rows of our catalogue of hostile sites (`ROB-13`), or our \
         own choice. `\\n` is a line end, `{{{{3*x}}}}` is `xxx`, long cells are shortened.\n\n\
         | case | source | agent | path | expected | file | why |\n|---|---|---|---|---|---|---|\n",
        rows().count()
    );
    for mut cells in rows() {
        let mut next = || cells.next().unwrap_or_default();
        let (id, source) = (next(), next());
        let (agent, path, expected, file) = (code(next()), code(next()), next(), code(next()));
        let _ = writeln!(page, "| {id} | {source} | {agent} | {path} | {expected} | {file} | {} |", next());
    }
}

/// A cell in a code span. A bar would end the cell; there is no backtick in the data.
fn code(cell: &str) -> String {
    let short: String = cell.chars().take(CELL_CHARS_MAX).collect();
    let more = if short.len() < cell.len() { "…" } else { "" };
    if cell.is_empty() { "(empty)".to_owned() } else { format!("`{}{more}`", short.replace('|', "\\|")) }
}
