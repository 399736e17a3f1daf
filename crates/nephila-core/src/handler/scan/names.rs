//! The names of elements and attributes that have a meaning here, found by one look into a table.
//!
//! A name is packed into an integer while it is scanned: its bytes in lower case behind a one, so that no two names of up
//! to [`PACKED_BYTES_MAX`] bytes are alike. Longer names have no meaning.

/// Names of up to this number of bytes can be packed. The longest with a meaning, `shadowrootmode`, has 14.
const PACKED_BYTES_MAX: usize = 15;

/// A name that is being scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed(u128);

impl Packed {
    /// Not a name: nothing is equal to it but itself.
    const LONG: Packed = Packed(0);

    /// Packs a whole name.
    pub(super) const fn of(name: &[u8]) -> Packed {
        if name.len() > PACKED_BYTES_MAX {
            return Packed::LONG;
        }
        let (mut packed, mut at) = (1, 0);
        while at < name.len() {
            packed = packed << 8 | name[at].to_ascii_lowercase() as u128;
            at += 1;
        }
        Packed(packed)
    }

    /// The packed bytes; none if there were too many.
    pub(super) fn number(self) -> Option<u128> {
        (self != Packed::LONG).then_some(self.0)
    }

    /// The start of a search in a table of `slots`, a power of two.
    const fn slot(self, slots: usize) -> usize {
        let folded = (self.0 as u64) ^ (self.0 >> 64) as u64;
        (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (slots - 1)
    }
}

/// A table from packed names to numbers, made by the compiler. The slots with the number 0 are empty.
struct Table<const SLOTS: usize> {
    names: [u128; SLOTS],
    numbers: [u8; SLOTS],
}

impl<const SLOTS: usize> Table<SLOTS> {
    /// Number `n` belongs to `names[n - 1]`.
    const fn new(names: &[&str]) -> Self {
        assert!(SLOTS.is_power_of_two() && names.len() * 2 <= SLOTS && names.len() < 256);
        let mut table = Table { names: [0; SLOTS], numbers: [0; SLOTS] };
        let mut at = 0;
        while at < names.len() {
            let packed = Packed::of(names[at].as_bytes());
            let mut slot = packed.slot(SLOTS);
            while table.numbers[slot] != 0 {
                assert!(table.names[slot] != packed.0, "a name stands twice");
                slot = (slot + 1) & (SLOTS - 1);
            }
            (table.names[slot], table.numbers[slot]) = (packed.0, at as u8 + 1);
            at += 1;
        }
        table
    }

    /// The index of a name.
    fn find(&self, name: Packed) -> Option<usize> {
        let mut slot = name.slot(SLOTS);
        // Half of the slots are empty, so this ends.
        loop {
            match self.numbers[slot] {
                0 => return None,
                number if self.names[slot] == name.0 => return Some(usize::from(number) - 1),
                _ => slot = (slot + 1) & (SLOTS - 1),
            }
        }
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $enum:ident, $slots:literal, { $($variant:ident $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::handler) enum $enum {
            $($variant,)+
        }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub(in crate::handler) const ALL: &'static [$enum] = &[$($enum::$variant,)+];
            /// Their names in lower case, in the same order.
            pub(super) const NAMES: &'static [&'static str] = &[$($name,)+];

            pub(super) fn of(name: Packed) -> Option<$enum> {
                const TABLE: &Table<$slots> = &Table::new($enum::NAMES);
                TABLE.find(name).map(|at| $enum::ALL[at])
            }
        }
    };
}

names! {
    /// An element by its name.
    Element, 512, {
        A "a", Abbr "abbr", Address "address", AnnotationXml "annotation-xml", Area "area", Article "article",
        Aside "aside", Audio "audio", B "b", Base "base", Basefont "basefont", Bgsound "bgsound", Big "big",
        Blockquote "blockquote", Body "body", Br "br", Button "button", Canvas "canvas", Caption "caption",
        Center "center", Circle "circle", Cite "cite", Code "code", Col "col", Colgroup "colgroup", Data "data",
        Dd "dd", Defs "defs", Del "del", Desc "desc", Details "details", Div "div", Dl "dl", Dt "dt", Em "em",
        Embed "embed", Fieldset "fieldset", Figcaption "figcaption", Figure "figure", Font "font",
        Footer "footer", ForeignObject "foreignobject", Form "form", Frame "frame", Frameset "frameset", G "g",
        H1 "h1", H2 "h2", H3 "h3", H4 "h4", H5 "h5", H6 "h6", Head "head", Header "header", Hgroup "hgroup",
        Hr "hr", Html "html", I "i", Iframe "iframe", Image "image", Img "img", Input "input", Ins "ins",
        Kbd "kbd", Keygen "keygen", Label "label", Legend "legend", Li "li", Line "line", Link "link",
        Listing "listing", Main "main", Map "map", Mark "mark", Math "math", Menu "menu", Meta "meta", Mi "mi",
        Mn "mn", Mo "mo", Ms "ms", Mtext "mtext", Nav "nav", Nobr "nobr", Noembed "noembed",
        Noframes "noframes", Noscript "noscript", Object "object", Ol "ol", Optgroup "optgroup",
        Option "option", Output "output", P "p", Param "param", Path "path", Picture "picture",
        Plaintext "plaintext", Polygon "polygon", Pre "pre", Progress "progress", Q "q", Rect "rect",
        Ruby "ruby", S "s", Samp "samp", Script "script", Section "section", Select "select", Slot "slot",
        Small "small", Source "source", Span "span", Strike "strike", Strong "strong", Style "style",
        Sub "sub", Summary "summary", Sup "sup", Svg "svg", Symbol "symbol", Table "table", Tbody "tbody",
        Td "td", Template "template", Textarea "textarea", Tfoot "tfoot", Th "th", Thead "thead", Time "time",
        Title "title", Tr "tr", Track "track", Tt "tt", U "u", Ul "ul", Use "use", Var "var", Video "video",
        Wbr "wbr", Xmp "xmp",
    }
}

names! {
    /// An attribute that is read.
    Attribute, 128, {
        Action "action", Alt "alt", Background "background", Color "color", Content "content", Data "data",
        Encoding "encoding", Face "face", Href "href", Hreflang "hreflang", HttpEquiv "http-equiv",
        Imagesrcset "imagesrcset", Lang "lang", Method "method", Name "name", Poster "poster", Rel "rel",
        Shadowrootmode "shadowrootmode", Size "size", Src "src", Srcset "srcset", Style "style", Type "type",
        XlinkHref "xlink:href",
    }
}

impl Element {
    /// Whether the element has no contents and no end tag in HTML: those of today, and those that were one in the past.
    pub(super) fn is_void(self) -> bool {
        use Element::*;
        matches!(
            self,
            Area | Base
                | Basefont
                | Bgsound
                | Br
                | Col
                | Embed
                | Hr
                | Img
                | Input
                | Keygen
                | Link
                | Meta
                | Param
                | Source
                | Track
                | Wbr
        )
    }

    /// Whether the start tag ends foreign content (HTML standard, 13.2.6.5). `font` depends on its attributes.
    pub(super) fn leaves_foreign_content(self) -> bool {
        use Element::*;
        matches!(
            self,
            B | Big
                | Blockquote
                | Body
                | Br
                | Center
                | Code
                | Dd
                | Div
                | Dl
                | Dt
                | Em
                | Embed
                | H1
                | H2
                | H3
                | H4
                | H5
                | H6
                | Head
                | Hr
                | I
                | Img
                | Li
                | Listing
                | Menu
                | Meta
                | Nobr
                | Ol
                | P
                | Pre
                | Ruby
                | S
                | Small
                | Span
                | Strong
                | Strike
                | Sub
                | Sup
                | Table
                | Tt
                | U
                | Ul
                | Var
        )
    }

    /// Whether one of the attributes is read, wherever the element stands. `style` is read from all elements or none.
    pub(super) fn has_read_attributes(self) -> bool {
        use Element::*;
        matches!(
            self,
            A | Area
                | AnnotationXml
                | Audio
                | Base
                | Body
                | Embed
                | Font
                | Form
                | Frame
                | Html
                | Iframe
                | Image
                | Img
                | Input
                | Link
                | Meta
                | Object
                | Script
                | Source
                | Template
                | Track
                | Use
                | Video
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case_and_no_other_is() {
        for (name, element) in [("div", Element::Div), ("ForeignObject", Element::ForeignObject)] {
            assert_eq!(Element::of(Packed::of(name.as_bytes())), Some(element));
        }
        assert_eq!(Attribute::of(Packed::of(b"XLINK:href")), Some(Attribute::XlinkHref));
        for none in [&b"diva"[..], b"d", b"", b"di\xe9", b"\0div", b"div\0", b"annotation-xmlannotation-xml"]
        {
            assert_eq!(Element::of(Packed::of(none)), None, "{none:?}");
        }
        // A NUL before a name is not nothing.
        assert_ne!(Packed::of(b"\0href"), Packed::of(b"href"));
        assert_ne!(Packed::of(b"\0"), Packed::of(b""));
    }
}
