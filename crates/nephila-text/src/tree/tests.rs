//! The limits of the tree.

use super::*;

fn text(html: &str) -> String {
    parse(html).text_of(ROOT, 10_000)
}

#[test]
fn a_page_is_read_up_to_the_limit_of_depth() {
    let tree = parse(&format!("<p>before</p>{}after", "<div>".repeat(100_000)));
    assert!(tree.nodes.len() < 2_000, "{}", tree.nodes.len());
    assert_eq!(tree.text_of(ROOT, 100), "before");
}

#[test]
fn a_page_is_read_up_to_the_limit_of_nodes() {
    let tree = parse(&"<i></i>".repeat(1_000_000));
    assert!(tree.nodes.len() < NODES_MAX + PIECE_BYTES, "{}", tree.nodes.len());
}

#[test]
fn a_tag_with_too_many_attributes_is_left_out() {
    let attributes = |count: usize| (0..count).map(|at| format!("a{at}=x ")).collect::<String>();
    let page =
        |count: usize| format!("<p>before<b {}>in</b></p {}>after", attributes(count), attributes(count));
    let elements =
        |html: &str| parse(html).nodes.iter().filter(|node| matches!(node.data, Data::Element(_))).count();
    assert_eq!(text(&page(ATTRIBUTES_OF_TAG_MAX)), "beforeinafter");
    assert_eq!(text(&page(ATTRIBUTES_OF_TAG_MAX + 1)), "beforeinafter");
    assert_eq!(elements(&page(ATTRIBUTES_OF_TAG_MAX)), elements(&page(ATTRIBUTES_OF_TAG_MAX + 1)) + 1);
}

#[test]
fn a_script_that_looks_like_an_endless_tag_ends_with_the_script() {
    let script = format!("<script>if (a<b {}) {{}}</script>", "c d ".repeat(ATTRIBUTES_OF_TAG_MAX));
    assert_eq!(endless_tags(&script).len(), 1);
    let tree = parse(&format!("<p>before</p>{script}<p>after</p>"));
    let paragraphs =
        tree.nodes.iter().filter(|node| matches!(&node.data, Data::Element(one) if one.tag == Tag::P));
    assert_eq!(paragraphs.count(), 2);
}

#[test]
fn long_values_are_cut() {
    let tree = parse(&format!("<p class='{}'>", "\u{e9}".repeat(VALUE_BYTES_MAX)));
    let values = (0..tree.nodes.len() as u32).filter_map(|id| tree.element(id));
    assert!(values.map(|element| element.attribute("class").len()).max().unwrap() <= VALUE_BYTES_MAX);
}

#[test]
fn moved_nodes_stay_in_one_tree() {
    let tree = parse("<table><b>x<tr><td><a>1<div>2</a>3</table><p><i>4<p>5");
    for (id, node) in tree.nodes.iter().enumerate().filter(|(_, node)| node.parent != NONE) {
        let mut child = tree.nodes[node.parent as usize].first;
        let mut found = 0;
        while child != NONE {
            found += usize::from(child == id as u32);
            child = tree.nodes[child as usize].next;
        }
        assert_eq!(found, 1);
    }
    assert_eq!(text("<table><b>x<tr><td><a>1<div>2</a>3</table><p><i>4<p>5"), "x12345");
}
