//! The kept blocks as Markdown.
//!
//! The blocks are written as plain HTML first, with the elements that Markdown knows and no others, and `htmd` converts
//! that. So the converter sees a small and shallow page, whatever the page was.

use crate::blocks::Page;
use crate::tag::Tag;
use crate::tree::{Data, Element, NONE, ROOT};

/// Maximum nesting depth of what is written: the converter is recursive.
const DEPTH_MAX: usize = 40;
/// Maximum size in bytes of the HTML that is converted.
const BYTES_MAX: usize = 2 << 20;

/// Writes the kept blocks as Markdown. Empty if the converter fails.
pub(crate) fn markdown(page: &Page, keep: &[bool]) -> String {
    let absolute = |href: &str| href.starts_with("http").then(|| href.to_owned());
    of_html(&html(page, keep, &absolute))
}

/// Converts what [`html`] has written.
pub(crate) fn of_html(html: &str) -> String {
    htmd::convert(html).unwrap_or_default()
}

/// Writes the kept blocks as HTML. `resolve` makes the address of a link absolute.
pub(crate) fn html(page: &Page, keep: &[bool], resolve: &dyn Fn(&str) -> Option<String>) -> String {
    let mut kept_before = vec![0_u32];
    let mut own = vec![false; page.tree.nodes.len()];
    for (block, keep) in page.blocks.iter().zip(keep) {
        kept_before.push(kept_before[kept_before.len() - 1] + u32::from(*keep));
        own[block.node as usize] |= *keep;
    }
    let mut out = String::new();
    // For each open node its end tag, which is empty if the element is left out.
    let mut open: Vec<(u32, &'static str)> = Vec::new();
    let mut depth = 0;
    let mut at = ROOT;
    while at != NONE && out.len() < BYTES_MAX {
        while let Some((_, end)) = open.pop_if(|(node, _)| page.tree.nodes[at as usize].parent != *node) {
            depth -= usize::from(!end.is_empty());
            out.push_str(end);
        }
        let down = match &page.tree.nodes[at as usize].data {
            Data::Document => true,
            Data::Text(text) => {
                if keep.get(page.block_of[at as usize] as usize).copied().unwrap_or(false) {
                    escape(text, &mut out);
                }
                false
            }
            Data::Element(element) => {
                let about = &page.about[at as usize];
                if element.tag == Tag::Br {
                    out.push_str(if out.is_empty() { "" } else { "<br>" });
                }
                let any = !element.tag.is_skipped()
                    && kept_before[about.to as usize] > kept_before[about.from.min(about.to) as usize];
                if any {
                    let end = match depth < DEPTH_MAX {
                        true => start(element, own[at as usize], resolve, &mut out),
                        false => "",
                    };
                    depth += usize::from(!end.is_empty());
                    open.push((at, end));
                }
                any
            }
        };
        if matches!(page.tree.nodes[at as usize].data, Data::Document) {
            open.push((at, ""));
        }
        at = page.tree.following(at, ROOT, !down);
    }
    while let Some((_, end)) = open.pop() {
        out.push_str(end);
    }
    out
}

/// Writes a start tag and returns the end tag.
fn start(
    element: &Element,
    is_own: bool,
    resolve: &dyn Fn(&str) -> Option<String>,
    out: &mut String,
) -> &'static str {
    let (start, end) = match element.tag {
        Tag::P | Tag::Figcaption | Tag::Caption | Tag::Summary => ("<p>", "</p>"),
        Tag::H1 => ("<h1>", "</h1>"),
        Tag::H2 => ("<h2>", "</h2>"),
        Tag::H3 => ("<h3>", "</h3>"),
        Tag::H4 => ("<h4>", "</h4>"),
        Tag::Li | Tag::Dd | Tag::Dt => ("<li>", "</li>"),
        Tag::Ul if element.name() == "ol" => ("<ol>", "</ol>"),
        Tag::Ul => ("<ul>", "</ul>"),
        Tag::Pre => ("<pre>", "</pre>"),
        Tag::Blockquote => ("<blockquote>", "</blockquote>"),
        Tag::Table => ("<table>", "</table>"),
        Tag::Tr => ("<tr>", "</tr>"),
        Tag::Td => ("<td>", "</td>"),
        Tag::Th => ("<th>", "</th>"),
        Tag::Code => ("<code>", "</code>"),
        Tag::Strong => ("<strong>", "</strong>"),
        Tag::Em => ("<em>", "</em>"),
        Tag::A => match resolve(element.attribute("href")) {
            Some(href) => {
                out.push_str("<a href=\"");
                escape(&href, out);
                out.push_str("\">");
                return "</a>";
            }
            None if is_own => ("<div>", "</div>"),
            None => ("", ""),
        },
        _ if is_own => ("<div>", "</div>"),
        _ => ("", ""),
    };
    out.push_str(start);
    end
}

fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{blocks, tree};

    fn convert(html: &str, drop: &[usize]) -> String {
        let page = blocks::read(tree::parse(html));
        let keep: Vec<bool> = (0..page.blocks.len()).map(|at| !drop.contains(&at)).collect();
        super::markdown(&page, &keep)
    }

    #[test]
    fn the_kept_blocks_are_written_with_their_form() {
        let html = "<div><h2>Head</h2><nav>Home</nav><p>A <b>bold</b> <a href='https://a.test/'>link</a> &lt;b&gt;.\
                    <ul><li>one<li>two</ul></div>";
        let found = convert(html, &[1]);
        assert!(found.starts_with("## Head"), "{found}");
        for part in ["**bold**", "[link](https://a.test/)", "one", "two"] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("Home"), "{found}");
    }

    #[test]
    fn what_is_left_out_leaves_no_mark() {
        assert_eq!(convert("<table><tr><td>x</table><p>word", &[0]), "word");
        assert_eq!(convert("", &[]), "");
    }

    #[test]
    fn a_deep_page_is_written_shallow() {
        let html = format!("{}word", "<blockquote>".repeat(200));
        let found = convert(&html, &[]);
        assert!(found.contains("word") && found.matches('>').count() <= 2 * super::DEPTH_MAX, "{found}");
    }
}
