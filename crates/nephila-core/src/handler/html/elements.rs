//! What each element names.

use super::super::link::{is_nofollow, read_rel};
use super::super::refresh::{self, Refresh};
use super::{Attribute, Attributes, Element, Html, LinkKind, Named, TitleState};

impl Html<'_> {
    /// Takes what an element names. `is_open`: it may have contents.
    pub(super) fn take_element(&mut self, element: Element, is_open: bool, attributes: &Attributes<'_>) {
        use Attribute::{Action, Background, Data, Href, Poster, Src, Srcset, XlinkHref};
        use LinkKind::{Iframe, Requisite};
        match element {
            Element::A => {
                let at = self.hyperlink(attributes, Named::new(LinkKind::Link, "a/@href"));
                self.begin_anchor(at, is_open);
            }
            Element::Area => {
                self.hyperlink(attributes, Named::new(LinkKind::Area, "area/@href"));
            }
            Element::Link => self.link(attributes),
            Element::Meta => self.meta(attributes),
            Element::Base => self.base(attributes),
            Element::Img => {
                self.take(attributes, Src, "img/@src", Requisite);
                self.take_set(attributes, Srcset, "img/@srcset");
                self.add_image_to_anchor(attributes);
            }
            Element::Source => {
                self.take(attributes, Src, "source/@src", Requisite);
                self.take_set(attributes, Srcset, "source/@srcset");
            }
            Element::Script => self.take(attributes, Src, "script/@src", Requisite),
            Element::Audio => self.take(attributes, Src, "audio/@src", Requisite),
            Element::Track => self.take(attributes, Src, "track/@src", Requisite),
            Element::Embed => self.take(attributes, Src, "embed/@src", Requisite),
            Element::Video => {
                self.take(attributes, Src, "video/@src", Requisite);
                self.take(attributes, Poster, "video/@poster", Requisite);
            }
            // Shapes and pictures of SVG. `image` outside of SVG is an old name of `img`.
            Element::Image => {
                self.take(attributes, Src, "image/@src", Requisite);
                self.take(attributes, Href, "image/@href", Requisite);
                self.take(attributes, XlinkHref, "image/@xlink:href", Requisite);
            }
            Element::Use => {
                self.take(attributes, Src, "use/@src", Requisite);
                self.take(attributes, Href, "use/@href", Requisite);
                self.take(attributes, XlinkHref, "use/@xlink:href", Requisite);
            }
            Element::Object => self.take(attributes, Data, "object/@data", Requisite),
            Element::Iframe => self.take(attributes, Src, "iframe/@src", Iframe),
            Element::Frame => self.take(attributes, Src, "frame/@src", Iframe),
            Element::Body => self.take(attributes, Background, "body/@background", Requisite),
            Element::Input => {
                let kind = attributes.get(Attribute::Type);
                if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("image")) {
                    self.take(attributes, Src, "input/@src", Requisite);
                }
            }
            Element::Form if self.limits.forms => {
                let is_get = attributes.get(Attribute::Method).is_none_or(|method| {
                    let method = method.trim();
                    !method.eq_ignore_ascii_case("post") && !method.eq_ignore_ascii_case("dialog")
                });
                if is_get {
                    self.take(attributes, Action, "form/@action", LinkKind::Form);
                }
            }
            Element::Template => self.template(is_open, attributes),
            Element::Title => self.begin_title(),
            Element::Html => self.take_language(attributes),
            _ => {}
        }
    }

    /// Takes a link. Returns its number.
    fn hyperlink(&mut self, attributes: &Attributes<'_>, named: Named) -> Option<usize> {
        let href = attributes.get(Attribute::Href).or_else(|| attributes.get(Attribute::XlinkHref))?;
        let rel = attributes.get(Attribute::Rel);
        let nofollow = rel.as_deref().is_some_and(is_nofollow);
        let at = self.push(&href, Named { nofollow, ..named });
        self.note_rel(at, rel.as_deref());
        at
    }

    fn link(&mut self, attributes: &Attributes<'_>) {
        let Some(words) = attributes.get(Attribute::Rel) else { return };
        let rel = read_rel(&words, attributes.get(Attribute::Type).as_deref());
        let Some(kind) = rel.kind else { return };
        if let Some(href) = attributes.get(Attribute::Href) {
            let at = self.push(&href, Named { nofollow: rel.nofollow, ..Named::new(kind, "link/@href") });
            self.note_rel(at, Some(&words));
            if let Some(noted) = self.noted.as_mut().filter(|_| self.open.marked() == 0) {
                noted.link(kind, &href, attributes.get(Attribute::Hreflang).as_deref());
            }
        }
        if kind.is_requisite() {
            self.take_set(attributes, Attribute::Imagesrcset, "link/@imagesrcset");
        }
    }

    fn meta(&mut self, attributes: &Attributes<'_>) {
        if self.open.marked() > 0 {
            return;
        }
        let Some(content) = attributes.get(Attribute::Content) else { return };
        if let Some(name) = attributes.get(Attribute::Name) {
            self.robots.read_meta(&name, &content);
            self.noted.iter_mut().for_each(|noted| noted.meta(&name, &content));
        }
        let pragma = attributes.get(Attribute::HttpEquiv);
        let is_refresh = pragma.is_some_and(|pragma| pragma.trim().eq_ignore_ascii_case("refresh"));
        if is_refresh && let Some(refresh) = refresh::parse(&content) {
            self.take_refresh(refresh);
        }
    }

    /// Takes a `meta` refresh. In `noscript` the refresh is for readers without scripts, who would otherwise see
    /// nothing: a link, since the page has its own text.
    fn take_refresh(&mut self, refresh: Refresh) {
        if let Some(url) = &refresh.url {
            let short = refresh.delay <= self.limits.refresh_redirect_max && !self.is_noscript;
            let kind = if short { LinkKind::Redirect } else { LinkKind::Refresh };
            self.push(url, Named::new(kind, "meta/@content"));
        }
        // Browsers use the first.
        if !self.is_noscript && self.refresh.is_none() {
            self.refresh = Some(refresh);
        }
    }

    fn base(&mut self, attributes: &Attributes<'_>) {
        if self.base.is_none() && self.open.marked() == 0 && !self.is_noscript {
            self.base = attributes.get(Attribute::Href).map(|href| href.into_owned());
        }
    }

    fn template(&mut self, is_open: bool, attributes: &Attributes<'_>) {
        // A shadow tree is shown like the rest of the page.
        if is_open && !attributes.has(Attribute::Shadowrootmode) {
            self.let_go();
            self.open.mark();
        }
    }

    fn begin_title(&mut self) {
        // An image of SVG has a title of its own.
        let is_of_page = !self.open.has(Element::Svg) && self.open.marked() == 0;
        if self.title_state == TitleState::Before && is_of_page {
            self.title_state = TitleState::Inside;
        }
    }
}
