//! The figures as a table in a document, between two marks.
//!
//! Invariant: text outside the marks stays unchanged.

use super::Row;

const BEGIN: &str = "<!-- figures: made by `cargo xtask sim scale --write` -->\n";
const END: &str = "<!-- end of figures -->";

/// A line of the table: its subject, the format of a column, the goal.
struct Line {
    about: &'static str,
    /// With `{name}` for a number, `{name%}` for a percentage, `{name:2}` for this number of decimal places.
    shown: &'static str,
    goal: &'static str,
}

const fn line(about: &'static str, shown: &'static str, goal: &'static str) -> Line {
    Line { about, shown, goal }
}

const LINES: [Line; 20] = [
    line("fetches", "{fetches}", ""),
    line("virtual minutes", "{virtual_minutes}", ""),
    line("nodes killed; rings that a node went by", "{kills}; {rings}", ""),
    line("fetches/s", "{fetches_per_second}", ""),
    // A run ends with the first one.
    line("starts too near, or two at once", "0", "0"),
    line("busiest node over mean", "{busiest_over_mean:2}", "1.25"),
    line(
        "take-over of a partition, s: half of them / slowest (model of a half)",
        "{take_over_median_s:1} / {take_over_max_s:1} ({take_over_s_model:1})",
        "",
    ),
    line("used share of the promised rate, 60 hosts at an address", "{used_share_60_hosts:2}", "0.90"),
    line("the same, 4 hosts at an address", "{used_share_4_hosts:2}", "0.90"),
    line("fetches from addresses that several nodes ask", "{shared_share%}", ""),
    line("turns for each of these", "{turns_per_shared_fetch:2}", ""),
    line(
        "turns/s (model before: blocks of 20; now)",
        "{turns_per_second} ({turns_per_second_model}; {turns_per_second_corrected})",
        "",
    ),
    line(
        "packets about addresses/s (of these for new rings, model)",
        "{slot_packets_per_second} ({ring_packets_per_second_model})",
        "",
    ),
    line(
        "the same, middle second / busiest",
        "{slot_packets_median_second} / {slot_packets_peak_second}",
        "",
    ),
    line("fetches from these addresses in the worst 10 s, of the usual", "{shared_fetches_worst_10s%}", ""),
    line(
        "groups/s (model before; now)",
        "{groups_per_second} ({groups_per_second_model}; {groups_per_second_corrected})",
        "",
    ),
    line(
        "parcels of links/s (model before; now)",
        "{parcels_per_second} ({parcels_per_second_model}; {parcels_per_second_corrected})",
        "",
    ),
    line(
        "messages for a page (model before; now)",
        "{messages_per_page:1} ({messages_per_page_model:1}; {messages_per_page_corrected:1})",
        "",
    ),
    line(
        "bytes of the logs for a page (model before; now)",
        "{log_bytes_per_page} ({log_bytes_per_page_model}; {log_bytes_per_page_corrected})",
        "",
    ),
    line(
        "pages fetched again, of a million (model)",
        "{repeats_per_million} ({repeats_per_million_model})",
        "",
    ),
];

/// The table.
fn markdown(all: &[Row]) -> String {
    let mut out = String::from("|");
    for (n, row) in all.iter().enumerate() {
        out += &format!(" | {}{}", grouped(row.nodes() as f64), if n == 0 { " nodes" } else { "" });
    }
    out += &format!(" | goal |\n|{}\n", "---|".repeat(all.len() + 2));
    for Line { about, shown, goal } in &LINES {
        let cells: Vec<String> = all.iter().map(|row| show(shown, row)).collect();
        out += &format!("| {about} | {} | {goal} |\n", cells.join(" | "));
    }
    out
}

/// A document with the table in the place of the previous one; none if the document has no place for a table.
pub fn put_in(document: &str, all: &[Row]) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, &markdown(all), END, after].concat())
}

fn show(shown: &str, row: &Row) -> String {
    let mut out = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        out += before;
        out += &value(name, row);
        rest = after;
    }
    out + rest
}

fn value(name: &str, row: &Row) -> String {
    let (name, share) = name.strip_suffix('%').map_or((name, false), |name| (name, true));
    let (name, places) = name.split_once(':').map_or((name, 0), |(name, n)| (name, n.parse().unwrap_or(0)));
    let value = match name {
        "virtual_minutes" => row.value("virtual_seconds").map(|seconds| seconds / 60.0),
        name => row.value(name),
    };
    match value {
        None => "?".to_owned(),
        Some(value) if share => format!("{:.0} %", value * 100.0),
        Some(value) if places > 0 => format!("{value:.places$}"),
        Some(value) => grouped(value),
    }
}

/// A whole number, with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Figures;
    use super::*;

    #[test]
    fn the_table_takes_the_place_of_the_old_one_and_knows_every_number() {
        let figures = Figures { nodes: 8, seconds: 60.0, fetches: 1_234_567, ..Figures::default() };
        let rows = [Row::from(&figures), Row::from(&Figures { nodes: 1_000, ..figures })];
        let before = format!("text\n{BEGIN}old\n{END}\nmore\n");
        let after = put_in(&before, &rows).unwrap();
        assert!(
            after.starts_with("text\n") && after.ends_with("\nmore\n") && !after.contains("old"),
            "{after}"
        );
        assert!(
            after.contains("| fetches | 1,234,567 | 1,234,567 |") && after.contains("| 1,000 |"),
            "{after}"
        );
        assert!(!after.contains('?') && !after.contains('{'), "{after}");
        assert_eq!(put_in(&after, &rows), Some(after.clone()));
        assert_eq!(put_in("no place", &rows), None);
        assert_eq!([0.0, 999.0, 1e3, 1e8].map(grouped), ["0", "999", "1,000", "100,000,000"]);
    }
}
