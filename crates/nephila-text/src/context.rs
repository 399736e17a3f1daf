//! The second look at a block: what the first look thought of the blocks around it.

use std::collections::HashMap;

use crate::blocks::Page;
use crate::features::Rows;

/// Running sums of words and of expected words of main text.
struct Expected {
    words: Vec<f64>,
    main: Vec<f64>,
}

impl Expected {
    fn of(page: &Page, first: &[f32]) -> Expected {
        let (mut words, mut main) = (vec![0.0], vec![0.0]);
        for (block, chance) in page.blocks.iter().zip(first) {
            let count = f64::from(block.words.max(1));
            words.push(words[words.len() - 1] + count);
            main.push(main[main.len() - 1] + count * f64::from(*chance));
        }
        Expected { words, main }
    }

    /// Share of main text between two blocks, without the block itself.
    fn share(&self, from: usize, to: usize, own: usize) -> f32 {
        let mut words = self.words[to] - self.words[from];
        let mut main = self.main[to] - self.main[from];
        if (from..to).contains(&own) {
            words -= self.words[own + 1] - self.words[own];
            main -= self.main[own + 1] - self.main[own];
        }
        if words < 0.5 { -1.0 } else { (main / words) as f32 }
    }
}

/// Appends to the row of each block the features of the second look. Returns rows of the new width.
pub(crate) fn rows(page: &Page, rows: &Rows, first: &[f32]) -> (usize, Vec<f32>) {
    let count = page.blocks.len();
    let expected = Expected::of(page, first);
    let mut by_path: HashMap<u32, (f64, f64)> = HashMap::new();
    for (at, block) in page.blocks.iter().enumerate() {
        let sum = by_path.entry(rows.paths[at]).or_default();
        sum.0 += f64::from(block.words.max(1));
        sum.1 += f64::from(block.words.max(1)) * f64::from(first[at]);
    }
    let begin = first.iter().position(|chance| *chance > 0.5);
    let end = first.iter().rposition(|chance| *chance > 0.5);
    let main = expected.main[count];
    let mut values = Vec::with_capacity(count * (rows.width + 32));
    let mut last_likely = -1_000.0_f32;
    for at in 0..count {
        values.extend_from_slice(rows.row(at));
        values.push(first[at]);
        for step in [-4_isize, -3, -2, -1, 1, 2, 3, 4] {
            let other = at.checked_add_signed(step).and_then(|other| first.get(other));
            values.push(other.copied().unwrap_or(-1.0));
        }
        let window = (at.saturating_sub(10), (at + 11).min(count));
        values.push(expected.share(window.0, window.1, at));
        for (from, to) in rows.rings[at] {
            values.push(expected.share(from as usize, to as usize, at));
        }
        let (words, chances) = by_path[&rows.paths[at]];
        let own = f64::from(page.blocks[at].words.max(1));
        let others = words - own;
        values.push(if others < 0.5 {
            -1.0
        } else {
            ((chances - own * f64::from(first[at])) / others) as f32
        });
        values.push((others as f32).ln_1p());
        values.push(expected.share(0, count, at));
        values.push((main as f32).ln_1p());
        values.push((expected.main[at] / main.max(1e-6)) as f32);
        values.push(begin.map_or(-1_000.0, |begin| at as f32 - begin as f32));
        values.push(end.map_or(-1_000.0, |end| end as f32 - at as f32));
        values.push((at as f32 - last_likely).min(1_000.0));
        if first[at] > 0.5 {
            last_likely = at as f32;
        }
    }
    (values.len().checked_div(count).unwrap_or(0), values)
}
