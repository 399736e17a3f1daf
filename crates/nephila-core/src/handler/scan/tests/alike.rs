//! Random markup gives the same tags, texts and open elements as in `lol_html`.

use proptest::prelude::*;

use super::oracle;
use crate::handler::scan::outline::{outline, outline_names};

/// Names of elements, separated by spaces.
const NAMES: &str = "a A base link img script script SCRIPT style title textarea xmp iframe noembed noframes noscript \
    plaintext template svg svg math mi mtext desc foreignObject annotation-xml font p br div div table b h1 select \
    frameset my-widget x aaaaaaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaaaab a\0 é scriptx scrip input";

/// Names of attributes, separated by spaces.
const ATTRIBUTES: &str =
    "href HREF src rel xlink:href color encoding content hrefx hre \0href é = \" ' < a<b class";

/// Values, separated by bars.
const VALUES: &str = "/a||x y|a>b|a/b|text/html|a&amp;b|é|\0|\r\n|a=b|'|\"|`|</script>";

/// Pieces that begin or end something, separated by bars.
const PIECES: &str = "<|</|>|/>|<!|<!-|<!--|-->|--!>|<!-->|<!--->|--|-|->|!>|!|<!>|<!DOCTYPE|<!DOCTYPE html>|\
    <!doctype a PUBLIC \"x>y\">|<?php ?>|<?|</ x>|</>|<![CDATA[|<![cdata[|]]>|]]|]|<!--<script>|<!--<script |</script>|\
    </script x|</script\t/|<script>|<script/|</style|</title >|</textarea\n>|</xmp>|</iframe>|</noscript>|<svg>|</svg>|\
    </math>|</desc>|</foreignObject>|</annotation-xml>|</p>|</br>|</a>|</div>|</template>|text|é|\0|\r\n| |&amp;|&|'|\"|\
    =|/|<a|<a |<a href|<a href=|<a href='|<a href=\"|<a href=x|<a/href=/q>|<a b='c'd=e href=/f>|<a href = /s >|\
    <a =href=/e>|<a href==/e>|<1>|<é>|\x0c";

fn one_of(texts: &'static str, separator: char) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(texts.split(separator).collect::<Vec<_>>())
}

fn tag() -> impl Strategy<Value = String> {
    let space = prop_oneof![5 => Just(" "), 1 => Just("\n"), 1 => Just("/"), 1 => Just("\t \r")];
    let equals = prop_oneof![6 => Just("="), 1 => Just(" = "), 1 => Just("")];
    let quote = prop_oneof![3 => Just("\""), 2 => Just("'"), 2 => Just("")];
    let attribute = (space, one_of(ATTRIBUTES, ' '), equals, quote, one_of(VALUES, '|')).prop_map(
        |(space, name, equals, quote, value)| format!("{space}{name}{equals}{quote}{value}{quote}"),
    );
    (
        prop_oneof![3 => Just("<"), 1 => Just("</")],
        one_of(NAMES, ' '),
        proptest::collection::vec(attribute, 0..4),
        prop_oneof![8 => Just(">"), 2 => Just("/>"), 1 => Just(" >"), 1 => Just("")],
    )
        .prop_map(|(open, name, attributes, close)| format!("{open}{name}{}{close}", attributes.concat()))
}

/// Markup of whole tags, of pieces that begin or end something, and of any bytes; sometimes cut.
fn page() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        10 => tag().prop_map(String::into_bytes),
        10 => one_of(PIECES, '|').prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ];
    (proptest::collection::vec(piece, 0..16), 0..3 * 64usize).prop_map(|(pieces, cut)| {
        let mut page = pieces.concat();
        page.truncate(if cut < 64 { page.len() * cut / 64 } else { page.len() });
        page
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..Default::default() })]

    #[test]
    fn random_markup_has_the_same_tags_texts_and_open_elements(page in page()) {
        let (elements, attributes) = outline_names();
        let ours = outline(&page);
        if oracle::may_differ(&page, &ours).is_none() {
            let theirs = oracle::outline(&page, &elements, &attributes);
            prop_assert_eq!(&ours, &theirs, "{}", String::from_utf8_lossy(&page));
        }
    }
}

/// Each difference is one on purpose: both sides are written down.
#[test]
fn the_table_of_differences_is_true() {
    let (elements, attributes) = outline_names();
    for (page, ours_has, theirs_has) in [
        ("<script x=><a href=/x>", "raw <a href=/x>", "start a|href=/x"),
        ("<svg/><style><a href=/x></style>", "raw <a href=/x>", "start a|href=/x"),
        ("<svg><svg><p><style><a href=/x></style>", "raw <a href=/x>", "start a|href=/x"),
        ("<a href='\u{feff}/x'>", "start a|href=\u{feff}/x", "start a|href=/x"),
        (
            "<math><annotation-xml encoding=x encoding=text/html><style><a href=/x>",
            "start a|href=/x",
            "raw <a href=/x>",
        ),
    ] {
        let ours = outline(page.as_bytes());
        let theirs = oracle::outline(page.as_bytes(), &elements, &attributes);
        assert!(oracle::may_differ(page.as_bytes(), &ours).is_some(), "{page}");
        assert!(ours.iter().any(|line| line == ours_has), "{page}: {ours:?}");
        assert!(theirs.iter().any(|line| line == theirs_has), "{page}: {theirs:?}");
    }
}
