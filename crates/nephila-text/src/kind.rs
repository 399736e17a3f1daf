//! What sort of page it is, from cheap signs: its address, what it says about itself, and what its blocks are made of.

use crate::blocks::{Page, Role};
use crate::head::Head;
use crate::tag::Tag;
use crate::words;

/// What sort of page it is. The order is that of the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageKind {
    /// One text in sequence: news, a blog post, a guide.
    #[default]
    Article,
    /// Posts of several people in a thread, or a question with answers.
    Forum,
    /// One thing that is sold.
    Product,
    /// Many things that are sold.
    Collection,
    /// An index of articles, courses, profiles.
    Listing,
    /// Reference and manuals.
    Documentation,
    /// What an organisation offers.
    Service,
}

/// Number of signs of the content, which stand last.
pub(crate) const CONTENTS: usize = 22;
/// Number of kinds.
pub(crate) const KINDS: usize = 7;

impl PageKind {
    /// All kinds, in the order of the features.
    pub const ALL: [PageKind; KINDS] = [
        PageKind::Article,
        PageKind::Forum,
        PageKind::Product,
        PageKind::Collection,
        PageKind::Listing,
        PageKind::Documentation,
        PageKind::Service,
    ];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Article => "article",
            PageKind::Forum => "forum",
            PageKind::Product => "product",
            PageKind::Collection => "collection",
            PageKind::Listing => "listing",
            PageKind::Documentation => "documentation",
            PageKind::Service => "service",
        }
    }
}

const ADDRESS_WORDS: [&str; 9] = [
    "forum forums thread threads topic topics viewtopic showthread community discussion discussions \
     questions question t comments discuss td board boards phpbb",
    "docs doc documentation manual reference api guide wiki tutorial tutorials learn help man kb html \
     readthedocs developer developers latest stable howto",
    "blog news article articles post posts story stories magazine press insights p opinion politics \
     business sport resources",
    "product products dp item pd sku prod itm",
    "category categories collections collection shop c store browse search all sale women men cat plp",
    "services service solutions pricing features about platform industries company agency solution \
     consulting contact",
    "tag tags courses jobs events reviews directory list archive topics best top explore rankings \
     trending",
    "how what why to the of for in with your",
    "index home default main",
];

const TYPES: [&str; 10] = [
    "article newsarticle blogposting reportagenewsarticle analysisnewsarticle opinionnewsarticle",
    "product productgroup individualproduct",
    "offer aggregateoffer",
    "itemlist collectionpage offercatalog searchresultspage",
    "discussionforumposting qapage question answer comment",
    "techarticle apireference howto softwaresourcecode",
    "service localbusiness professionalservice softwareapplication webapplication product/service \
     organization",
    "blog course event jobposting movie book review",
    "faqpage",
    "webpage aboutpage profilepage",
];

const GENERATORS: [&str; 5] = [
    "discourse phpbb vbulletin xenforo vanilla invision mybb smf flarum nodebb",
    "sphinx mkdocs docusaurus mediawiki gitbook javadoc vitepress hugo doxygen rustdoc docutils \
     jekyll antora",
    "wordpress",
    "shopify woocommerce magento prestashop bigcommerce shopware",
    "wix squarespace webflow elementor framer drupal hubspot",
];

/// Signs of the page as a whole, for the rules of the kinds.
pub(crate) fn signs(page: &Page, head: &Head, url: &str) -> Vec<f32> {
    let mut signs = Vec::with_capacity(96);
    address(url, &mut signs);
    for names in TYPES {
        let count = head.types.iter().filter(|name| lists(names, name)).count();
        signs.push((count as f32).ln_1p());
    }
    let og_type = head.og_type.to_ascii_lowercase();
    signs.push(match og_type.as_str() {
        "" => 0.0,
        "website" => 1.0,
        "article" | "blog" | "news" => 2.0,
        "product" | "og:product" | "product.item" => 3.0,
        "product.group" => 4.0,
        _ => 5.0,
    });
    let generator = head.generator.to_ascii_lowercase();
    for names in GENERATORS {
        signs.push(f32::from(u8::from(names.split(' ').any(|name| generator.contains(name)))));
    }
    signs.push(f32::from(u8::from(!head.published.is_empty())));
    signs.push(f32::from(u8::from(!head.author.is_empty())));
    let mut groups = [0_u32; words::GROUPS];
    let mut roles = [0_u32; crate::blocks::ROLES + 1];
    for node in &page.order {
        let about = &page.about[*node as usize];
        roles[about.role as usize] += 1;
        let mut bits = about.groups;
        while bits != 0 {
            groups[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }
    signs.extend(groups.iter().map(|count| (*count as f32).ln_1p()));
    let counted = [Role::Nav, Role::Article, Role::Main, Role::Form, Role::Table, Role::List, Role::Section];
    signs.extend(counted.iter().map(|role| (roles[*role as usize] as f32).ln_1p()));
    contents(page, &mut signs);
    signs
}

// Places of the signs that the rules read.
const IN_FORUM: usize = 0;
const IN_DOCS: usize = 2;
const IN_NEWS: usize = 4;
const IN_PRODUCT: usize = 6;
const IN_SHOP: usize = 8;
const IN_SERVICE: usize = 10;
const IN_LISTING: usize = 12;
const PARTS: usize = 17;
const HYPHENS: usize = 19;
const TYPE: usize = 24;
const OG_TYPE: usize = TYPE + TYPES.len();
const GENERATOR: usize = OG_TYPE + 1;
const PUBLISHED: usize = GENERATOR + GENERATORS.len();
const GROUP: usize = PUBLISHED + 2;
const ROLE: usize = GROUP + words::GROUPS;
const CONTENT: usize = ROLE + 7;

/// The chance of each kind by rules that were written by hand: what the page says about itself weighs most, then the words
/// of its address, then what it is made of. The rules were not fitted to any set of pages.
pub(crate) fn chances(signs: &[f32]) -> Vec<f32> {
    let if_any = |at: usize, weight: f32| if signs[at] > 0.0 { weight } else { 0.0 };
    let when = |is: bool, weight: f32| if is { weight } else { 0.0 };
    let content = &signs[CONTENT..];
    let (link_share, code_share, long_share) = (content[1], content[2], content[4]);
    let (prices, carts, more) = (content[5].exp_m1(), content[18].exp_m1(), content[20].exp_m1());
    let og = signs[OG_TYPE];
    let says_article = signs[TYPE] > 0.0 || og == 2.0;
    let says_product = signs[TYPE + 1] > 0.0 || og == 3.0;
    let articles = signs[ROLE + 1].exp_m1();
    let products = signs[TYPE + 1].exp_m1();
    let is_home = signs[PARTS] == 0.0;
    let article = 1.5
        + when(says_article, 2.0)
        + if_any(PUBLISHED, 0.7)
        + if_any(PUBLISHED + 1, 0.3)
        + if_any(IN_NEWS, 0.8)
        + when(signs[HYPHENS] >= 3.0, 0.8)
        + 1.5 * long_share
        - when(is_home, 1.5);
    let forum = if_any(TYPE + 4, 2.5)
        + if_any(GENERATOR, 3.0)
        + if_any(IN_FORUM, 2.0)
        + when(signs[GROUP + 14] > 2.5, 1.0)
        + when(signs[GROUP + 22] > 2.0, 0.7)
        + when(content[19] > 1.5, 0.5);
    let product = when(says_product, 3.0)
        + when(says_product && products < 3.5, 0.7)
        + if_any(IN_PRODUCT, 1.5)
        + when(carts > 0.0, 0.8)
        + when(prices > 0.0, 0.5)
        - when(says_article, 1.0);
    let collection = if_any(TYPE + 3, 1.0)
        + if_any(IN_SHOP, 1.5)
        + if_any(GENERATOR + 3, 0.7)
        + when(prices > 3.0, 1.0)
        + when(prices > 10.0, 1.0)
        + when(og == 4.0, 2.0)
        + when(products > 3.5, 1.5)
        - when(says_article, 1.0)
        - if_any(IN_PRODUCT, 1.5);
    let listing = if_any(IN_LISTING, 1.2)
        + if_any(TYPE + 3, 1.0)
        + when(articles > 4.0, 1.0)
        + when(more > 4.0, 0.7)
        + when(long_share < 0.3, 0.7)
        + 1.5 * link_share
        - when(says_article, 1.5);
    let documentation = if_any(GENERATOR + 1, 2.5)
        + if_any(IN_DOCS, 2.0)
        + if_any(TYPE + 5, 1.5)
        + when(code_share > 0.05, 1.5)
        + when(signs[GROUP + 15] > 2.0, 0.5)
        - when(says_article, 1.0);
    let service = if_any(IN_SERVICE, 1.7)
        + if_any(TYPE + 6, 0.5)
        + when(is_home, 1.5)
        + if_any(GENERATOR + 4, 0.5)
        + when(signs[PUBLISHED] == 0.0, 0.7)
        + when(long_share < 0.5, 0.4)
        - when(says_article, 1.0);
    softmax(&[article, forum, product, collection, listing, documentation, service])
}

/// Chances of several choices from the logarithms of their odds.
fn softmax(sums: &[f32]) -> Vec<f32> {
    let most = sums.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = sums.iter().map(|sum| (sum - most).exp()).collect();
    let total: f32 = powers.iter().sum();
    powers.into_iter().map(|power| power / total).collect()
}

/// Whether a list of words has a word.
fn lists(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

fn address(url: &str, signs: &mut Vec<f32>) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = crate::cut(rest, 500).to_ascii_lowercase();
    let (path, query) = rest.split_once('?').unwrap_or((&rest, ""));
    let (host, path) = path.split_once('/').unwrap_or((path, ""));
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last().copied().unwrap_or_default();
    let whole: Vec<&str> = parts.iter().copied().chain(host.split('.')).collect();
    let words: Vec<&str> =
        path.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    for (at, names) in ADDRESS_WORDS.iter().enumerate() {
        // Parts of the path and the host count, and for the last lists each word.
        let in_parts = whole.iter().filter(|part| lists(names, part)).count();
        let in_words = words.iter().filter(|word| word.len() > 2 && lists(names, word)).count();
        signs.push(in_parts as f32);
        if at < 8 {
            signs.push(in_words as f32);
        }
    }
    // Without an address it is not known whether the page is a home page.
    signs.push(if url.is_empty() { -1.0 } else { parts.len() as f32 });
    signs.push(query.len() as f32);
    signs.push(last.matches(['-', '_']).count() as f32);
    signs.push(last.len() as f32);
    signs.push(last.bytes().filter(u8::is_ascii_digit).count() as f32);
    signs.push(path.bytes().filter(u8::is_ascii_digit).count() as f32);
    signs.push(f32::from(u8::from(url.ends_with('/'))));
}

fn contents(page: &Page, signs: &mut Vec<f32>) {
    let total = |of: fn(&crate::blocks::Block) -> u32| page.blocks.iter().map(of).sum::<u32>() as f32;
    let words = total(|block| block.words).max(1.0);
    let link_words = total(|block| block.link_words);
    let code = total(|block| block.code_chars);
    let long = page.blocks.iter().filter(|block| block.words >= 20 && block.link_words * 3 < block.words);
    let (long_count, long_words) =
        long.fold((0.0_f32, 0.0_f32), |(count, sum), block| (count + 1.0, sum + block.words as f32));
    let prices = page.blocks.iter().filter(|block| is_price(page.text_of(block))).count() as f32;
    let with_tag = |tag: fn(Tag) -> bool| {
        page.blocks.iter().filter(|block| tag(page.tree.tag(block.node))).count() as f32
    };
    let list = [
        words.ln_1p(),
        link_words / words,
        code / total(|block| block.chars).max(1.0),
        long_count.ln_1p(),
        long_words / words,
        prices.ln_1p(),
        prices / page.blocks.len().max(1) as f32,
        (page.blocks.len() as f32).ln_1p(),
        words / page.blocks.len().max(1) as f32,
        with_tag(|tag| tag == Tag::P).ln_1p(),
        with_tag(|tag| tag == Tag::Pre).ln_1p(),
        with_tag(|tag| tag == Tag::Li).ln_1p(),
        with_tag(|tag| tag == Tag::H1).ln_1p(),
        with_tag(|tag| tag == Tag::H2).ln_1p(),
        with_tag(|tag| tag == Tag::H3).ln_1p(),
        with_tag(|tag| matches!(tag, Tag::Td | Tag::Th)).ln_1p(),
        with_tag(|tag| tag == Tag::Button).ln_1p(),
        total(|block| block.digits) / total(|block| block.chars).max(1.0),
        total(|block| u32::from(block.phrases >> 8 & 1 == 1)).ln_1p(),
        total(|block| u32::from(block.phrases >> 6 & 1 == 1)).ln_1p(),
        total(|block| u32::from(block.phrases >> 4 & 1 == 1)).ln_1p(),
        total(|block| u32::from(block.phrases >> 9 & 1 == 1)).ln_1p(),
    ];
    signs.extend(list);
}

/// Whether a short text contains an amount of money.
pub(crate) fn is_price(text: &str) -> bool {
    text.len() < 60
        && text.contains(['$', '€', '£', '₹', '¥'])
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(html: &str, url: &str) -> PageKind {
        let tree = crate::tree::parse(html);
        let head = crate::head::read(&tree);
        let signs = signs(&crate::blocks::read(tree), &head, url);
        assert_eq!(signs.len(), CONTENT + CONTENTS);
        let chances = chances(&signs);
        assert_eq!(chances.len(), KINDS);
        let best = (0..KINDS).max_by(|a, b| chances[*a].total_cmp(&chances[*b])).unwrap();
        PageKind::ALL[best]
    }

    #[test]
    fn a_page_is_what_it_says_it_is() {
        let said = |name: &str| {
            format!("<script type='application/ld+json'>{{\"@type\":\"{name}\"}}</script><p>Some words.")
        };
        assert_eq!(kind(&said("NewsArticle"), "https://a.test/x"), PageKind::Article);
        assert_eq!(kind(&said("Product"), "https://a.test/x"), PageKind::Product);
        assert_eq!(kind("<meta name=generator content='phpBB'><p>Hi", "https://a.test/x"), PageKind::Forum);
    }

    #[test]
    fn else_it_is_what_its_address_says() {
        assert_eq!(kind("<p>Hi", "https://a.test/forum/viewtopic/12"), PageKind::Forum);
        assert_eq!(
            kind("<p>Hi<pre>let a = 1;</pre>", "https://docs.a.test/api/latest"),
            PageKind::Documentation
        );
        assert_eq!(kind("<p>Hi", "https://a.test/services/roof"), PageKind::Service);
        assert_eq!(
            kind("<p>$1<p>$2<p>$3<p>$4<p>$5", "https://a.test/collections/shop"),
            PageKind::Collection
        );
    }
}
