//! Curves over the number of nodes, as an SVG: a panel for each question, simulated figures as a line, predicted
//! figures as a dashed one.
//!
//! Invariant: the same figures give the same bytes.

use std::fmt::Write as _;

use super::Row;

/// A panel: its title, its curves by column, whether its scale is logarithmic, and a bound if there is one.
struct Panel {
    title: &'static str,
    curves: &'static [(&'static str, &'static str, bool)],
    log: bool,
    bound: Option<f64>,
}

const SIMULATED: bool = false;
const PREDICTED: bool = true;

const PANELS: [Panel; 9] = [
    Panel {
        title: "turns of addresses per second",
        curves: &[
            ("turns_per_second", "simulated", SIMULATED),
            ("turns_per_second_corrected", "predicted: one start each", PREDICTED),
            ("turns_per_second_model", "before: blocks of 20", PREDICTED),
        ],
        log: true,
        bound: None,
    },
    Panel {
        title: "packets about addresses per second",
        curves: &[
            ("slot_packets_per_second", "mean", SIMULATED),
            ("slot_packets_peak_second", "busiest second", SIMULATED),
            ("ring_packets_per_second_model", "of these for new rings", PREDICTED),
        ],
        log: true,
        bound: None,
    },
    Panel {
        title: "messages to the logs per second",
        curves: &[
            ("groups_per_second", "groups", SIMULATED),
            ("parcels_per_second", "parcels of links", SIMULATED),
            ("groups_per_second_corrected", "predicted", PREDICTED),
            ("parcels_per_second_corrected", "predicted", PREDICTED),
        ],
        log: true,
        bound: None,
    },
    Panel {
        title: "busiest node over mean (bound 1.25)",
        curves: &[("busiest_over_mean", "simulated", SIMULATED)],
        log: false,
        bound: Some(1.25),
    },
    Panel {
        title: "used share of the promised rate (goal 0.9)",
        curves: &[
            ("used_share_60_hosts", "addresses with 60 hosts", SIMULATED),
            ("used_share_4_hosts", "with 4 hosts", SIMULATED),
        ],
        log: false,
        bound: Some(0.9),
    },
    Panel {
        title: "take-over of a partition, s",
        curves: &[
            ("take_over_median_s", "half of them", SIMULATED),
            ("take_over_max_s", "slowest", SIMULATED),
            ("take_over_s_model", "predicted", PREDICTED),
        ],
        log: false,
        bound: None,
    },
    Panel {
        title: "messages to the logs for a page",
        curves: &[
            ("messages_per_page", "simulated", SIMULATED),
            ("messages_per_page_corrected", "predicted", PREDICTED),
            ("messages_per_page_model", "before", PREDICTED),
        ],
        log: false,
        bound: None,
    },
    Panel {
        title: "bytes of the logs for a page",
        curves: &[
            ("log_bytes_per_page", "simulated", SIMULATED),
            ("log_bytes_per_page_corrected", "predicted", PREDICTED),
            ("log_bytes_per_page_model", "before", PREDICTED),
        ],
        log: false,
        bound: None,
    },
    Panel {
        title: "pages fetched again, of a million",
        curves: &[
            ("repeats_per_million", "simulated", SIMULATED),
            ("repeats_per_million_model", "predicted", PREDICTED),
        ],
        log: true,
        bound: None,
    },
];

const COLOURS: [&str; 2] = ["#1f5f99", "#b3541e"];
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 210.0;
/// Room for the title and the numbers.
const LEFT: f64 = 48.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 26.0;

/// Draws the figures.
pub fn plot(all: &[Row]) -> String {
    let (across, down) = (3, PANELS.len().div_ceil(3));
    let (width, height) = (WIDTH * across as f64, HEIGHT * down as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (n, panel) in PANELS.iter().enumerate() {
        let (x, y) = ((n % across) as f64 * WIDTH, (n / across) as f64 * HEIGHT);
        _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        draw(&mut out, panel, all);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, panel: &Panel, all: &[Row]) {
    let points = |name: &str| -> Vec<(f64, f64)> {
        all.iter().filter_map(|row| Some((row.nodes() as f64, row.value(name)?))).collect()
    };
    let values: Vec<f64> = panel
        .curves
        .iter()
        .flat_map(|(name, ..)| points(name))
        .map(|(_, value)| value)
        .chain(panel.bound)
        .collect();
    let most = values.iter().fold(0.0, |most: f64, value| most.max(*value)).max(1e-9) * 1.1;
    let least =
        values.iter().filter(|value| **value > 0.0).fold(most, |least: f64, value| least.min(*value)) / 1.5;
    let (first, last) =
        (all.first().map_or(1.0, |row| row.nodes() as f64), all.last().map_or(2.0, |row| row.nodes() as f64));
    let span = (last / first).ln().max(1e-9);
    let x = |nodes: f64| LEFT + (nodes / first).ln() / span * (WIDTH - LEFT - 16.0);
    let y = |value: f64| {
        let share = match panel.log {
            true => (value.max(least) / least).ln() / (most / least).ln().max(1e-9),
            false => value / most,
        };
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    };
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - 16.0);
    _ = writeln!(out, "<text x=\"{LEFT}\" y=\"16\" font-size=\"12\">{}</text>", panel.title);
    _ = writeln!(out, "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>");
    for row in all {
        let at = x(row.nodes() as f64);
        _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 14.0,
            row.nodes()
        );
    }
    for value in marks(panel.log, least, most) {
        let at = y(value);
        _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 4.0,
            at + 3.0,
            number(value)
        );
        _ = writeln!(out, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>");
    }
    if let Some(bound) = panel.bound {
        _ = writeln!(
            out,
            "<path d=\"M{LEFT} {:.1}H{right}\" stroke=\"#444\" stroke-dasharray=\"1 3\"/>",
            y(bound)
        );
    }
    let mut number_of = [0; 2];
    for (name, label, predicted) in panel.curves {
        let kind = usize::from(*predicted);
        let colour = COLOURS[number_of[kind] % COLOURS.len()];
        number_of[kind] += 1;
        let curve = points(name);
        let path: Vec<String> =
            curve.iter().map(|(nodes, value)| format!("{:.1} {:.1}", x(*nodes), y(*value))).collect();
        let dash = if *predicted { " stroke-dasharray=\"5 4\"" } else { "" };
        _ = writeln!(
            out,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>",
            path.join("L")
        );
        if let Some((nodes, value)) = curve.last() {
            let (at, up) = (x(*nodes), if *predicted { 12.0 } else { -5.0 });
            _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{label}</text>",
                y(*value) + up
            );
        }
    }
}

/// The numbers beside a scale.
fn marks(log: bool, least: f64, most: f64) -> Vec<f64> {
    if log {
        let from = least.log10().ceil() as i32;
        return (from..).map(|power| 10f64.powi(power)).take_while(|value| *value <= most).collect();
    }
    let step = 10f64.powf((most / 2.0).log10().floor());
    let step = if most / step > 8.0 { step * 2.0 } else { step };
    (0..).map(|n| f64::from(n) * step).take_while(|value| *value <= most).collect()
}

fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value if value == value.trunc() => format!("{value}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Figures;
    use super::*;

    #[test]
    fn every_curve_has_a_column_and_the_picture_is_whole() {
        let figures = Figures { nodes: 8, seconds: 1.0, fetches: 100, ..Figures::default() };
        let columns = figures.columns();
        for (name, ..) in PANELS.iter().flat_map(|panel| panel.curves) {
            assert!(columns.iter().any(|(column, _)| column == name), "{name}");
        }
        let picture = plot(&[Row::from(&figures), Row::from(&Figures { nodes: 64, ..figures })]);
        assert_eq!(picture.matches("<g ").count(), picture.matches("</g>").count());
        assert!(picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
    }
}
