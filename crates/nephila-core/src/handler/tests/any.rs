//! Any input: reading always returns a result, within limits.

use proptest::prelude::*;

use super::*;

/// Pieces with a meaning for one of the readers, so that random input reaches their states.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static str> = vec![
        "<a href=",
        "<a href='/x'>",
        "<base href='",
        "<title>",
        "</title>",
        "<noscript>",
        "</noscript>",
        "<template>",
        "</template>",
        "<svg>",
        "</svg>",
        "<math><mtext>",
        "<select>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<plaintext>",
        "<frameset>",
        "'",
        "\"",
        ">",
        "<",
        "&amp;",
        "&",
        ";",
        "#",
        "<meta http-equiv=refresh content='0;",
        "<img srcset='a 1x, ",
        "<link rel=alternate href=",
        "\0",
        "\u{feff}",
        "é",
        "<urlset>",
        "<url>",
        "<loc>",
        "</loc>",
        "</url>",
        "<sitemapindex>",
        "<sitemap>",
        "<image:image>",
        "http://a.test/",
        "<!DOCTYPE",
        "[<!ENTITY a 'b'>]>",
        "&a;",
        "<rss><item><link>",
        "<entry><link href='",
        "<?xml version='1.0'?>",
        "<meta charset=utf-16>",
        "\n",
        " ",
        "<foreignObject>",
        "<annotation-xml encoding='text/html'>",
        "<desc>",
        "</p>",
        "</br>",
    ];
    prop_oneof![
        4 => proptest::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..Default::default() })]

    #[test]
    fn any_bytes_are_read_within_limits(
        pieces in proptest::collection::vec(piece(), 0..60),
        links_max in 0usize..8,
        sitemap in any::<bool>(),
        utf16 in any::<bool>(),
        memory_max in 2_000usize..40_000,
    ) {
        let mut body: Vec<u8> = pieces.concat();
        if utf16 {
            body.splice(0..0, *b"\xff\xfe");
        }
        let mut answer = Answer::html(body).limit(|l| {
            l.links_max = links_max;
            l.memory_max = memory_max;
            l.sitemap_urls_max = links_max;
            l.forms = true;
        });
        if sitemap {
            answer.read_as = ReadAs::Sitemap;
        }
        let findings = answer.read();
        prop_assert!(findings.links.len() <= links_max);
        prop_assert!(findings.title.is_none_or(|title| title.len() <= 512));
        let mut keys: Vec<&str> = findings.links.iter().map(|found| found.url.key()).collect();
        keys.sort_unstable();
        prop_assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a URL came out twice");
        if let Some(sitemap) = findings.sitemap {
            prop_assert!(sitemap.urls.len() + sitemap.sitemaps.len() <= links_max);
        }
    }
}
