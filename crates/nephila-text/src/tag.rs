//! The elements that matter for the text of a page, by what they do to it.

/// An element by name. A name without a meaning for the text is [`Tag::Other`], which begins a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Other,
    P,
    Li,
    H1,
    H2,
    H3,
    H4,
    Td,
    Th,
    Dt,
    Dd,
    Pre,
    Blockquote,
    Figcaption,
    Button,
    Label,
    Summary,
    Div,
    Section,
    Article,
    Main,
    Nav,
    Header,
    Footer,
    Aside,
    Form,
    Figure,
    Table,
    Tr,
    Ul,
    Dialog,
    Details,
    Address,
    Noscript,
    Template,
    Caption,
    Custom,
    Body,
    Html,
    Head,
    Title,
    Meta,
    Link,
    Script,
    Br,
    A,
    Code,
    Strong,
    Em,
    Span,
    Img,
    Inline,
    Skipped,
}

impl Tag {
    pub(crate) fn of(name: &str) -> Tag {
        match name {
            "p" => Tag::P,
            "li" => Tag::Li,
            "h1" => Tag::H1,
            "h2" => Tag::H2,
            "h3" => Tag::H3,
            "h4" | "h5" | "h6" => Tag::H4,
            "td" => Tag::Td,
            "th" => Tag::Th,
            "dt" => Tag::Dt,
            "dd" => Tag::Dd,
            "pre" => Tag::Pre,
            "blockquote" => Tag::Blockquote,
            "figcaption" => Tag::Figcaption,
            "button" => Tag::Button,
            "label" | "legend" => Tag::Label,
            "summary" => Tag::Summary,
            "div" => Tag::Div,
            "section" => Tag::Section,
            "article" => Tag::Article,
            "main" => Tag::Main,
            "nav" => Tag::Nav,
            "header" => Tag::Header,
            "footer" => Tag::Footer,
            "aside" => Tag::Aside,
            "form" => Tag::Form,
            "figure" => Tag::Figure,
            "table" => Tag::Table,
            "tr" => Tag::Tr,
            "ul" | "ol" | "dl" | "menu" => Tag::Ul,
            "dialog" => Tag::Dialog,
            "details" => Tag::Details,
            "address" => Tag::Address,
            "noscript" => Tag::Noscript,
            "template" => Tag::Template,
            "caption" => Tag::Caption,
            "body" => Tag::Body,
            "html" => Tag::Html,
            "head" => Tag::Head,
            "title" => Tag::Title,
            "meta" => Tag::Meta,
            "link" => Tag::Link,
            "script" => Tag::Script,
            "br" => Tag::Br,
            "a" => Tag::A,
            "code" | "kbd" | "samp" | "tt" => Tag::Code,
            "b" | "strong" => Tag::Strong,
            "em" | "i" => Tag::Em,
            "span" => Tag::Span,
            "img" => Tag::Img,
            "abbr" | "acronym" | "bdi" | "bdo" | "big" | "center" | "cite" | "data" | "del" | "dfn"
            | "font" | "ins" | "mark" | "math" | "mi" | "mn" | "mo" | "mrow" | "msub" | "msup" | "nobr"
            | "output" | "q" | "rp" | "rt" | "ruby" | "s" | "semantics" | "small" | "strike" | "sub"
            | "sup" | "time" | "u" | "var" | "wbr" => Tag::Inline,
            "annotation" | "area" | "audio" | "base" | "canvas" | "datalist" | "embed" | "frame"
            | "frameset" | "iframe" | "input" | "map" | "meter" | "noembed" | "noframes" | "object"
            | "option" | "param" | "progress" | "select" | "source" | "style" | "svg" | "textarea"
            | "track" | "video" => Tag::Skipped,
            _ if name.contains('-') => Tag::Custom,
            _ => Tag::Other,
        }
    }

    /// Whether the text of such an element goes on in the line of the text around it.
    pub(crate) fn is_inline(self) -> bool {
        matches!(self, Tag::A | Tag::Code | Tag::Strong | Tag::Em | Tag::Span | Tag::Img | Tag::Inline)
    }

    /// Whether nothing below such an element is text of the page.
    pub(crate) fn is_skipped(self) -> bool {
        matches!(
            self,
            Tag::Skipped | Tag::Head | Tag::Script | Tag::Title | Tag::Meta | Tag::Link | Tag::Img | Tag::Br
        )
    }
}
