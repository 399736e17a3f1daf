//! Costly pages, each beside an almost identical page that is not.

use super::*;

/// Far above the time of any test here, and far below the time without limits.
const SOON: Duration = Duration::from_secs(20);

fn check_refused(html: &str) {
    let began = Instant::now();
    assert!(build(html).is_none());
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn elements_that_every_paragraph_repeats_are_counted() {
    let open: String = (0..190).map(|n| format!("<b id=n{n}>")).collect();
    let page = |paragraphs| format!("<p>{open}{}", "<p>x".repeat(paragraphs));
    assert!(build(&page(3)).is_some());
    check_refused(&page(60_000));
}

#[test]
fn attributes_that_every_paragraph_repeats_are_counted() {
    let open = format!("<b class='{}'>", "c".repeat(VALUE_BYTES_MAX));
    let page = |paragraphs| format!("<p>{open}{}", "<p>x".repeat(paragraphs));
    assert!(build(&page(1_000)).is_some());
    check_refused(&page(40_000));
}

#[test]
fn an_end_tag_that_closes_nothing_hides_no_depth() {
    let page = |divs| format!("{}{}", "<div></x>".repeat(divs), "word ".repeat(100));
    assert!(build(&page(DEPTH_MAX - 10)).is_some());
    check_refused(&page(DEPTH_MAX + 10));
    check_refused(&page(40_000));
    check_refused(&page(460_000));
}

#[test]
fn rows_within_each_other_in_a_drawing_are_deep() {
    for open in ["<tr>", "<td>", "<option>", "<link>"] {
        let page = |times| format!("<svg>{}words", open.repeat(times));
        assert!(build(&page(DEPTH_MAX - 10)).is_some(), "{open}");
        check_refused(&page(40_000));
    }
}

#[test]
fn a_tag_with_more_attributes_than_can_be_compared_is_left_in_time() {
    let page = |attributes: usize| {
        let names: String = (0..attributes).map(|n| format!("a{n} ")).collect();
        format!("<p {names}>words")
    };
    assert!(build(&page(500)).is_some());
    check_refused(&page(400_000));
}

#[test]
fn much_text_may_not_lie_deep() {
    let page = |divs, words| format!("{}{}", "<div>".repeat(divs), "word ".repeat(words));
    assert!(build(&page(10, 100_000)).is_some());
    assert!(build(&page(150, 100)).is_some());
    check_refused(&page(150, 100_000));
}

#[test]
fn headings_have_a_number() {
    let page = |headings| "<h2>a</h2>".repeat(headings);
    assert!(build(&page(HEADINGS_MAX)).is_some());
    check_refused(&page(HEADINGS_MAX + 1));
}

#[test]
fn only_what_the_reader_asks_for_is_kept() {
    let page = build("<p onclick=a class=b data-x=c><!-- d -->e<!-- f -->g<?h?></p>").unwrap();
    assert_eq!(&*page.select("p").html(), r#"<p class="b">eg</p>"#);
    let page = build("<base href=a><p>b<object><p>c</object><figure id=d src=e>f</figure>").unwrap();
    assert_eq!(&*page.select("head").html(), "<head></head>");
    assert_eq!(&*page.text(), "bf");
    assert_eq!(&*page.select("figure").html(), r#"<figure id="d">f</figure>"#);
    let block = r#"<script type="application/ld+json">{}</script>"#;
    let page = build(&block.repeat(LINKED_DATA_MAX + 5)).unwrap();
    assert_eq!(page.select("script").length(), LINKED_DATA_MAX);
}

#[test]
fn a_long_value_is_cut_where_a_letter_ends() {
    let page = build(&format!("<p class='x{}'>a", "\u{e9}".repeat(VALUE_BYTES_MAX))).unwrap();
    let class = page.select("p").attr("class").unwrap();
    assert_eq!(class.len(), VALUE_BYTES_MAX - 1);
}

#[test]
fn a_page_in_pieces_gives_the_tree_of_the_whole() {
    let lines = "<p>h\u{e9}l\u{e8}ne &amp; co\r\n<b>one<p>two</b><table>three<tr><td>four</table>";
    let html = format!("<!doctype html>{}", lines.repeat(500));
    assert!(html.len() > 4 * PIECE_BYTES);
    let page = build(&html).unwrap();
    assert_eq!(page.html(), Document::from(html.as_str()).html());
}

#[test]
fn sec_02_a_tag_with_attributes_without_end_is_not_built() {
    let page = |unit: &str, times| format!("<p>words</p><a {}>{}", unit.repeat(times), "word ".repeat(100));
    for unit in ["b ", "b/", "b=c ", "b='c>'", "b = \"c d\" ", "b<c "] {
        assert!(build(&page(unit, ATTRIBUTES_OF_TAG_MAX - 10)).is_some(), "{unit}");
        assert!(has_endless_tag(&page(unit, ATTRIBUTES_OF_TAG_MAX + 10)), "{unit}");
        check_refused(&page(unit, 1_000_000 / unit.len()));
    }
    assert!(!has_endless_tag(&format!("<a title=\"{}\">", "b ".repeat(100_000))), "a value is no attribute");
    assert!(!has_endless_tag(&"a < b and <b>c</b> ".repeat(10_000)), "nor is text");
}
