//! Which blocks are kept, and how they are written as text.

use crate::blocks::Page;
use crate::head::Head;
use crate::tag::Tag;

/// Maximum number of words of a title.
const TITLE_WORDS_MAX: u32 = 40;

/// Marks the blocks that are worth keeping.
///
/// The quality of a text is measured by the harmonic mean of precision and recall in words. With the chance of each block
/// the expected mean is known for every set of likeliest blocks; the best set is taken. From this set, blocks are left out
/// whose chance is below a share of the mean chance of the set: they add little to the mean, and are mostly dates, names
/// and teasers.
pub(crate) fn keep(page: &Page, chances: &[f32], share_min: f32) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*b].total_cmp(&chances[*a]));
    let words = |at: usize| f64::from(page.blocks[at].words.max(1));
    let all: f64 = (0..chances.len()).map(|at| words(at) * f64::from(chances[at])).sum();
    let (mut kept, mut right, mut best, mut best_count) = (0.0, 0.0, 0.0, 0);
    for (count, &at) in order.iter().enumerate() {
        kept += words(at);
        right += words(at) * f64::from(chances[at]);
        let mean = 2.0 * right / (kept + all);
        if mean > best {
            (best, best_count) = (mean, count + 1);
        }
    }
    let kept = &order[..best_count];
    let (sum, weight) = kept.iter().fold((0.0, 0.0), |(sum, weight), &at| {
        (sum + words(at) * f64::from(chances[at]), weight + words(at))
    });
    let chance_min = sum / f64::max(weight, 1.0) * f64::from(share_min);
    let mut keep = vec![false; chances.len()];
    for &at in kept {
        keep[at] = f64::from(chances[at]) > chance_min;
    }
    keep
}

/// Leaves out the blocks that repeat the title of the page, which is a field of its own.
pub(crate) fn leave_out_titles(page: &Page, head: &Head, keep: &mut [bool]) {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let titles = [&head.headline, &head.og_title, &head.h1, &head.title].map(|title| words(title));
    for (block, keep) in page.blocks.iter().zip(keep) {
        if *keep && block.words <= TITLE_WORDS_MAX {
            let own = words(page.text_of(block));
            *keep = own.is_empty() || !titles.contains(&own);
        }
    }
}

/// Writes the kept blocks: an empty line between paragraphs, a line for each item of a list and row of a table.
pub(crate) fn text(page: &Page, keep: &[bool]) -> String {
    let mut text = String::new();
    let mut last: Option<(Tag, u32)> = None;
    for (block, _) in page.blocks.iter().zip(keep).filter(|(_, keep)| **keep) {
        let own = page.text_of(block);
        let tag = page.tree.tag(block.node);
        let parent = page.parent(block.node);
        if let Some((last_tag, last_parent)) = last {
            let is_cell = matches!(tag, Tag::Td | Tag::Th);
            text.push_str(match () {
                () if is_cell && last_parent == parent => "\t",
                () if is_cell && matches!(last_tag, Tag::Td | Tag::Th) => "\n",
                () if tag == Tag::Li && last_tag == Tag::Li => "\n",
                () => "\n\n",
            });
        }
        if text.len() + own.len() > crate::TEXT_BYTES_MAX {
            break;
        }
        text.push_str(own);
        last = Some((tag, parent));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{blocks, head, tree};

    fn page(html: &str) -> Page {
        blocks::read(tree::parse(html))
    }

    #[test]
    fn the_set_with_the_best_expected_mean_is_kept() {
        let page = page("<p>one two three four<p>five six seven eight<p>nine");
        assert_eq!(keep(&page, &[0.9, 0.8, 0.0], 0.0), [true, true, false]);
        // One long unlikely block would cost more than it brings.
        assert_eq!(keep(&page, &[0.9, 0.1, 0.9], 0.0), [true, false, true]);
        // Nothing is likely, and something is kept all the same.
        assert_eq!(keep(&page, &[0.2, 0.2, 0.2], 0.0), [true, true, true]);
        assert_eq!(keep(&page, &[0.0, 0.0, 0.0], 0.0), [false, false, false]);
        assert_eq!(keep(&page, &[0.9, 0.9, 0.5], 0.0), [true, true, true]);
        assert_eq!(keep(&page, &[0.9, 0.9, 0.5], 0.7), [true, true, false]);
    }

    #[test]
    fn lists_and_tables_are_written_line_by_line() {
        let page =
            page("<h1>Head</h1><ul><li>a<li>b</ul><table><tr><td>1<td>2<tr><td>3<td>4</table><p>x<br>y");
        let keep = vec![true; page.blocks.len()];
        assert_eq!(text(&page, &keep), "Head\n\na\nb\n\n1\t2\n3\t4\n\nx\ny");
    }

    #[test]
    fn a_block_that_repeats_the_title_is_left_out() {
        let html = "<title>The bridge, again</title><p>The Bridge: again<p>The bridge is open";
        let head = head::read(&tree::parse(html));
        let mut keep = vec![true; 2];
        leave_out_titles(&page(html), &head, &mut keep);
        assert_eq!(keep, [false, true]);
    }
}
