//! The features of a block: numbers from which the model decides whether the block is main text.
//!
//! A row has four parts: the text of the block, the elements around it, its place on the page with its neighbours, and
//! signs of the page. All sums over elements are differences of running sums, so the work is linear in the number of
//! blocks times the bounded number of levels.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::blocks::{Block, LEVELS_MAX, Page, ROLES};
use crate::head::{Head, What};
use crate::kind::is_price;
use crate::tag::Tag;
use crate::tree::NONE;
use crate::words::{GROUPS, PHRASE_GROUPS};

/// Number of distinct levels around a block whose sums are features.
const RINGS: usize = 6;
/// Number of words of a long block: such blocks show where the main text is.
const LONG_WORDS: u32 = 15;
/// Number of words of a shingle.
const SHINGLE: usize = 3;

/// Running sums over the blocks before each position.
struct Sums {
    words: Vec<u32>,
    link_words: Vec<u32>,
    long_words: Vec<u32>,
    commas: Vec<u32>,
}

impl Sums {
    fn of(page: &Page) -> Sums {
        let run = |of: &dyn Fn(&Block) -> u32| {
            let mut sums = Vec::with_capacity(page.blocks.len() + 1);
            let mut sum = 0_u32;
            sums.push(0);
            for block in &page.blocks {
                sum = sum.saturating_add(of(block));
                sums.push(sum);
            }
            sums
        };
        Sums {
            words: run(&|block| block.words),
            link_words: run(&|block| block.link_words),
            long_words: run(&|block| if is_long(block) { block.words } else { 0 }),
            commas: run(&|block| block.commas),
        }
    }
}

fn over(sums: &[u32], from: u32, to: u32) -> f32 {
    (sums[to as usize] - sums[from as usize]) as f32
}

fn is_long(block: &Block) -> bool {
    block.words >= LONG_WORDS && block.link_words * 2 < block.words
}

/// The rows of all blocks, one after the other.
pub(crate) struct Rows {
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
    /// Distinct levels around each block, for the second look.
    pub(crate) rings: Vec<[Span; RINGS]>,
    /// Identifies blocks in the same surroundings.
    pub(crate) paths: Vec<u32>,
}

/// The blocks of an element, from the first to behind the last.
pub(crate) type Span = (u32, u32);

impl Rows {
    pub(crate) fn row(&self, at: usize) -> &[f32] {
        &self.values[at * self.width..(at + 1) * self.width]
    }
}

/// Computes the rows of a page. `signs` are features of the page that each row ends with.
pub(crate) fn rows(page: &Page, head: &Head, signs: &[f32]) -> Rows {
    let sums = Sums::of(page);
    let count = page.blocks.len();
    let candidates = [by_score(page, &sums), by_share(page, &sums, 0.5), by_share(page, &sums, 0.8)];
    let said = Said::of(head);
    let mut seen: HashMap<u64, u32> = HashMap::with_capacity(count);
    for block in &page.blocks {
        *seen.entry(block.hash).or_default() += 1;
    }
    let mut first_seen: HashMap<u64, ()> = HashMap::with_capacity(count);
    let h1 = page.blocks.iter().position(|block| heading(page, block) == 1);
    let total = sums.words[count] as f32;
    let mut values = Vec::new();
    let mut around: Vec<f32> = Vec::new();
    let mut around_of = NONE;
    let mut rings = [(0, 0); RINGS];
    let mut path = 0;
    let mut all_rings = Vec::with_capacity(count);
    let mut paths = Vec::with_capacity(count);
    let (mut since_heading, mut last_level, mut last_phrases) = (0_u32, 0, 0);
    let mut phrases_before = [0.0_f32; PHRASE_GROUPS];
    for (at, block) in page.blocks.iter().enumerate() {
        if block.node != around_of {
            around.clear();
            (rings, path) = surroundings(page, &sums, block.node, &candidates, h1, &mut around);
            around_of = block.node;
        }
        let start = values.len();
        local(page, block, &mut values);
        values.push(seen[&block.hash] as f32);
        values.push(f32::from(u8::from(first_seen.insert(block.hash, ()).is_some())));
        said.compare(page.text_of(block), &mut values);
        values.extend_from_slice(&around);
        let before = sums.words[at] as f32;
        values.push(at as f32 / count as f32);
        values.push(before / total.max(1.0));
        values.push(before.ln_1p());
        values.push((total - before).ln_1p());
        values.push((count - at) as f32);
        let level = heading(page, block);
        if level > 0 {
            (since_heading, last_level, last_phrases) = (0, level, block.phrases);
        } else {
            since_heading += 1;
        }
        values.push(since_heading as f32);
        values.push(last_level as f32);
        values.extend((0..PHRASE_GROUPS).map(|group| (last_phrases >> group & 1) as f32));
        values.extend_from_slice(&phrases_before);
        for (group, count) in phrases_before.iter_mut().enumerate() {
            *count += (block.phrases >> group & 1) as f32;
        }
        values.push(h1.map_or(-1_000.0, |h1| (at as f32 - h1 as f32).clamp(-500.0, 500.0)));
        for step in [-2_isize, -1, 1, 2] {
            let other = at.checked_add_signed(step).and_then(|other| page.blocks.get(other));
            neighbour(page, block, other, &mut values);
        }
        values.extend_from_slice(signs);
        debug_assert!(at == 0 || values.len() - start == start / at);
        all_rings.push(rings);
        paths.push(path);
    }
    let width = values.len().checked_div(count).unwrap_or(0);
    Rows { width, values, rings: all_rings, paths }
}

fn ratio(part: u32, whole: u32) -> f32 {
    part as f32 / whole.max(1) as f32
}

/// Level of a heading block, 0 for other blocks.
fn heading(page: &Page, block: &Block) -> u32 {
    let of = |tag| match tag {
        Tag::H1 => 1,
        Tag::H2 => 2,
        Tag::H3 => 3,
        Tag::H4 => 4,
        _ => 0,
    };
    let near = page.levels(block.node).take(3).map(|node| of(page.tree.tag(node)));
    near.into_iter().find(|level| *level > 0).unwrap_or(0)
}

fn local(page: &Page, block: &Block, row: &mut Vec<f32>) {
    let text = page.text_of(block);
    let last = text.chars().next_back().unwrap_or(' ');
    let first = text.chars().next().unwrap_or(' ');
    let flag = |is: bool| f32::from(u8::from(is));
    row.extend([
        (block.chars as f32).ln_1p(),
        (block.words as f32).ln_1p(),
        ratio(block.chars, block.words),
        ratio(block.link_chars, block.chars),
        block.links as f32,
        ratio(block.stops, block.words),
        ratio(block.commas, block.words),
        flag(matches!(last, '.' | '!' | '。' | '…' | '"' | '”' | '؟' | '।')),
        flag(last == ':'),
        flag(last == '?'),
        ratio(block.digits, block.chars),
        ratio(block.uppers, block.chars),
        ratio(block.capitals, block.words),
        ratio(block.strong_chars, block.chars),
        ratio(block.code_chars, block.chars),
        flag(first.is_lowercase()),
        flag(first.is_ascii_digit()),
        flag(!first.is_alphanumeric()),
        flag(is_price(text)),
        flag(text.contains(['|', '»', '›', '→', '·', '•'])),
        flag(block.words < 60 && text.contains('@')),
        text.bytes().filter(|byte| *byte == b'\n').count() as f32,
    ]);
    for group in 0..PHRASE_GROUPS {
        row.push((block.phrases >> group & 1) as f32);
    }
    let parent = page.tree.nodes[block.first as usize].parent;
    row.push(f32::from(page.tree.tag(block.node) as u8));
    row.push(f32::from(page.tree.tag(parent) as u8));
    let listed = page.levels(block.node).map(|node| page.tree.tag(node));
    let meaning = listed.take(6).find(|tag| (*tag as u8) != 0 && (*tag as u8) < Tag::Div as u8);
    row.push(meaning.map_or(0.0, |tag| f32::from(tag as u8)));
}

/// Features of the elements around the blocks of one element. Returns the distinct levels and a name of the place.
fn surroundings(
    page: &Page,
    sums: &Sums,
    node: u32,
    candidates: &[Option<Span>],
    h1: Option<usize>,
    row: &mut Vec<f32>,
) -> ([Span; RINGS], u32) {
    const FAR: f32 = LEVELS_MAX as f32 + 1.0;
    let mut groups = [FAR; GROUPS];
    let mut roles = [FAR; ROLES + 1];
    let mut hidden = FAR;
    let (mut alike, mut alike_level, mut alike_words) = (1, 0, 0.0);
    let mut rings = [(0, 0); RINGS];
    let mut ring_alike = [0.0; RINGS];
    let mut ring_count = 0;
    let mut last = (0, 0);
    let mut reached = [FAR; 4];
    let mut reached_words = [0.0; 4];
    let mut depth = 0;
    let mut lists = 0;
    let mut hasher = DefaultHasher::new();
    for (level, at) in page.levels(node).enumerate() {
        let about = &page.about[at as usize];
        depth = level;
        lists += u32::from(page.tree.tag(at) == Tag::Ul);
        if level < 3 {
            about.kind.hash(&mut hasher);
        }
        let mut bits = about.groups;
        while bits != 0 {
            let group = bits.trailing_zeros() as usize;
            groups[group] = groups[group].min(level as f32);
            bits &= bits - 1;
        }
        let role = about.role as usize;
        roles[role] = roles[role].min(level as f32);
        if about.is_hidden {
            hidden = hidden.min(level as f32);
        }
        if about.alike > alike {
            (alike, alike_level) = (about.alike, level);
            alike_words = over(&sums.words, about.from, about.to);
        }
        let range = (about.from, about.to);
        if range != last && about.to > about.from {
            if ring_count < RINGS {
                rings[ring_count] = range;
            }
            ring_count += 1;
            last = range;
        }
        if (1..=RINGS).contains(&ring_count) {
            ring_alike[ring_count - 1] = f32::max(ring_alike[ring_count - 1], about.alike as f32);
        }
        let places = candidates.iter().copied().chain([h1.map(|h1| (h1 as u32, h1 as u32 + 1))]);
        for (place, wanted) in places.enumerate() {
            if let Some(wanted) = wanted
                && reached[place] == FAR
                && about.from <= wanted.0
                && wanted.1 <= about.to
            {
                reached[place] = ring_count as f32;
                reached_words[place] = over(&sums.words, about.from, about.to);
            }
        }
    }
    let total = (sums.words[page.blocks.len()] as f32).max(1.0);
    row.extend_from_slice(&groups);
    row.extend_from_slice(&roles[1..]);
    row.extend([
        hidden,
        alike as f32,
        alike_level as f32,
        alike_words,
        depth as f32,
        lists as f32,
        ring_count as f32,
    ]);
    for place in 0..4 {
        row.push(reached[place]);
        row.push(reached_words[place] / total);
    }
    for candidate in candidates {
        let inside = candidate.is_some_and(|wanted| {
            let about = &page.about[node as usize];
            wanted.0 <= about.from && about.to <= wanted.1
        });
        row.push(f32::from(u8::from(inside)));
    }
    for ring in 0..RINGS {
        let (from, to) = rings[ring];
        let words = over(&sums.words, from, to);
        row.push(words.ln_1p());
        row.push(words / total);
        row.push(over(&sums.link_words, from, to) / words.max(1.0));
        row.push(over(&sums.long_words, from, to) / words.max(1.0));
        row.push(over(&sums.commas, from, to) / words.max(1.0));
        row.push((to - from) as f32);
        row.push(ring_alike[ring]);
    }
    // Levels that do not exist repeat the last one, for the second look.
    for ring in 1..RINGS {
        if rings[ring] == (0, 0) {
            rings[ring] = rings[ring - 1];
        }
    }
    (rings, hasher.finish() as u32)
}

fn neighbour(page: &Page, block: &Block, other: Option<&Block>, row: &mut Vec<f32>) {
    let Some(other) = other else {
        row.extend([-1.0; 6]);
        return;
    };
    let kind = |block: &Block| page.about[block.node as usize].kind;
    row.extend([
        (other.words as f32).ln_1p(),
        ratio(other.link_chars, other.chars),
        f32::from(page.tree.tag(other.node) as u8),
        f32::from(u8::from(kind(block) == kind(other))),
        ratio(other.stops + other.commas, other.words),
        f32::from(u8::from(page.parent(block.node) == page.parent(other.node))),
    ]);
}

/// The element whose long texts lie closest below it, as the reader views of browsers look for it.
fn by_score(page: &Page, sums: &Sums) -> Option<Span> {
    let mut scores: HashMap<u32, f32> = HashMap::new();
    for block in page.blocks.iter().filter(|block| is_long(block)) {
        let score = 1.0 + block.commas as f32 + (block.chars as f32 / 100.0).min(3.0);
        let skip = usize::from(!matches!(page.tree.tag(block.node), Tag::Div | Tag::Section | Tag::Article));
        for (level, node) in page.levels(block.node).skip(skip).take(5).enumerate() {
            let share = if level == 0 { 1.0 } else { 1.0 / (2.0 * level as f32) };
            *scores.entry(node).or_default() += score * share;
        }
    }
    let scored = scores.into_iter().map(|(node, score)| {
        let about = &page.about[node as usize];
        let words = over(&sums.words, about.from, about.to).max(1.0);
        (score * (1.0 - over(&sums.link_words, about.from, about.to) / words), node)
    });
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?.1;
    let about = &page.about[best as usize];
    Some((about.from, about.to))
}

/// The smallest element with a share of all long texts.
fn by_share(page: &Page, sums: &Sums, share: f32) -> Option<Span> {
    let wanted = over(&sums.long_words, 0, page.blocks.len() as u32) * share;
    let able = page.order.iter().map(|node| &page.about[*node as usize]).filter(|about| {
        wanted > 0.0 && about.to > about.from && over(&sums.long_words, about.from, about.to) >= wanted
    });
    let best = able.min_by_key(|about| about.to - about.from)?;
    Some((best.from, best.to))
}

/// What the page says of itself, to compare blocks with.
struct Said {
    title: Vec<u64>,
    description: Vec<u64>,
    body: Vec<u64>,
    rest: Vec<u64>,
}

impl Said {
    fn of(head: &Head) -> Said {
        let sorted = |mut hashes: Vec<u64>| {
            hashes.sort_unstable();
            hashes.dedup();
            hashes
        };
        let mut title = word_hashes(&head.title);
        title.extend(word_hashes(&head.og_title));
        let texts = |is: &dyn Fn(What) -> bool| {
            let said = head.texts.iter().filter(|said| is(said.what));
            said.flat_map(|said| shingles(&word_hashes(&said.text))).collect()
        };
        Said {
            title: sorted(title),
            description: sorted(shingles(&word_hashes(&head.description))),
            body: sorted(texts(&|what| what == What::Body)),
            rest: sorted(texts(&|what| what != What::Body)),
        }
    }

    fn compare(&self, text: &str, row: &mut Vec<f32>) {
        let words = word_hashes(crate::cut(text, 2_000));
        let parts = shingles(&words);
        let share = |known: &[u64], hashes: &[u64]| {
            if known.is_empty() || hashes.is_empty() {
                return -1.0;
            }
            hashes.iter().filter(|hash| known.binary_search(hash).is_ok()).count() as f32
                / hashes.len() as f32
        };
        row.push(if words.len() > 40 { -1.0 } else { share(&self.title, &words) });
        row.push(share(&self.description, &parts));
        row.push(share(&self.body, &parts));
        row.push(share(&self.rest, &parts));
    }
}

fn word_hashes(text: &str) -> Vec<u64> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            for letter in word.chars().flat_map(char::to_lowercase) {
                hash = (hash ^ u64::from(u32::from(letter))).wrapping_mul(0x0100_0000_01b3);
            }
            hash
        })
        .collect()
}

fn shingles(words: &[u64]) -> Vec<u64> {
    let join = |part: &[u64]| {
        part.iter()
            .fold(0, |hash: u64, word| (hash.rotate_left(21) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    words.windows(SHINGLE).map(join).collect()
}
