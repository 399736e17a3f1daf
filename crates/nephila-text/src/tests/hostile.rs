//! Pages that are made to be costly.

use std::fmt::Write;

/// Pages of the kinds that make parsers and readers slow. Each is about as long as asked.
pub(crate) fn hostile(bytes: usize) -> Vec<(&'static str, String)> {
    let words = "some words, and some more. ";
    let fill = |part: &str| part.repeat(bytes / part.len());
    let mut attributes = String::from("<p ");
    let mut formats = String::new();
    let mut at = 0;
    while attributes.len() < bytes {
        write!(attributes, "a{at}=1 ").unwrap();
        at += 1;
    }
    while formats.len() < bytes {
        write!(formats, "<b class=c{at}><p>").unwrap();
        at += 1;
    }
    let end_tag = format!("<p>{words}</p {}>", &attributes[3..]);
    // The quote makes a scan believe that the attributes are a value.
    let quoted = format!("<p>{words}<script>a<b x=\"</script><p {}>", &attributes[3..]);
    let value = format!("<p class='{}'>{words}", "x ".repeat(bytes / 2));
    let data = format!(r#"<script type="application/ld+json">{}</script>{words}"#, "[".repeat(bytes));
    vec![
        ("deep", fill("<div>")),
        ("deep with words", fill("<div>word ")),
        ("closed", fill("<i></i>")),
        ("unclosed", fill("<p><b><i><u>")),
        ("lists", fill("<ul><li>")),
        ("tables", fill("<table><tr><td>")),
        ("cells", format!("<table>{}", fill("<tr><td>x"))),
        ("foster", format!("<table>{}", fill("<a>x"))),
        ("adoption", fill("<a><div></a>")),
        ("formats", formats),
        ("attributes", attributes + ">" + words),
        ("attributes of an end tag", end_tag),
        ("attributes behind a quote", quoted),
        ("value", value),
        ("paragraphs", fill("<p>some words, and some more words.</p>")),
        ("links", fill("<a href=/x>link</a> ")),
        ("one word", fill("word")),
        ("breaks", fill("x<br>")),
        ("svg", format!("<svg>{}", fill("<tr>"))),
        ("template", fill("<template>")),
        ("select", format!("<select>{}", fill("<option>x"))),
        ("data", data),
        ("frameset", fill("<frameset>")),
        ("comments", fill("<!-- -->")),
        ("references", fill("&amp;&lt;&#x41;")),
    ]
}
