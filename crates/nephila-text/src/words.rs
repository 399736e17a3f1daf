//! Words that tell what a part of a page is: in class names and ids, and in its text.
//!
//! A class name is split at everything that is not a letter and before each capital letter, and every word is looked up
//! alone. Each word belongs to one **group**, and a group is one bit.

/// Number of groups of class words.
pub(crate) const GROUPS: usize = 24;

const WORDS: [&str; GROUPS] = [
    "nav navbar navigation menu menus submenu dropdown breadcrumb breadcrumbs crumb crumbs topbar \
     tabs skip sitemap megamenu navlink subnav menubar",
    "sidebar side aside rail widget widgets gutter secondary sidenav drawer complementary",
    "footer foot colophon copyright bottom legal disclaimer disclosure contentinfo subfooter",
    "header masthead banner top hero head logo brand headline title heading jumbotron",
    "comment comments respond disqus commentlist commenting livefyre",
    "related recommend recommended recommendations recommendation more similar also trending popular \
     latest next prev previous suggested suggestions teaser teasers upsell upsells crosssell carousel \
     slider slick swiper slide recent readmore explore discover recirc recirculation further viewed",
    "share sharing social follow facebook twitter sharedaddy addtoany whatsapp pinterest linkedin \
     instagram addthis shares sharethis socials",
    "ad ads advert advertisement adsense sponsor sponsored promo promos promotion promoted outbrain \
     taboola dfp gpt affiliate cta callout adslot advertising promotional offer offers deal deals",
    "cookie cookies consent gdpr onetrust ccpa privacy popup modal overlay lightbox dialog toast \
     notice alert cookiebot cky interstitial paywall announcement notification tooltip popover",
    "author byline meta date timestamp published tags tag category categories bio avatar credit \
     credits info time authors metadata posted badge label eyebrow kicker views topics",
    "content article post entry story body main text prose page single markdown richtext rte wysiwyg \
     copy articlebody bodytext rich maincontent blog paragraph editor block elementor section primary \
     longform storybody",
    "product products pdp sku price prices pricing cart buy addtocart variant variants swatch \
     swatches stock shipping delivery shop basket wishlist quantity qty checkout availability \
     woocommerce store size color",
    "review reviews rating ratings stars testimonial testimonials star quote yotpo bazaarvoice \
     trustpilot",
    "description desc details detail spec specs specification specifications features feature summary \
     excerpt accordion faq faqs overview intro lead lede subtitle subtitles dek standfirst benefits \
     steps attributes abstract ingredients instructions recipe tagline",
    "message messages postbody cooked thread threads topic forum forums posts postcontent bbwrapper \
     bbcode answer answers question questions usertext md reply replies discussion conversation \
     userpost postmessage lia ips posttext",
    "toc contents tableofcontents outline onthispage jump anchor anchors headerlink index",
    "hidden hide sr visually visuallyhidden screenreader offscreen collapse collapsed invisible none \
     screen mobile print noprint inactive closed",
    "pagination pager paging pages paginate loadmore pagenav paginator",
    "search filter filters facet facets sort sorting refine form login signup signin register \
     newsletter subscribe subscription optin email input mailchimp contact field hubspot hs \
     subscriber account refinement select option",
    "card cards item items tile tiles grid list listing listings result results row col column \
     columns collection feed stream cell entries archive gridlist plp loop river cat",
    "caption figcaption image img gallery media video photo figure picture thumbnail thumb player \
     embed",
    "code highlight syntax codehilite snippet example sourcecode prism hljs terminal console crayon \
     api",
    "user username profile signature poster postprofile member people users contributor team karma \
     reputation userinfo poststats",
    "btn button buttons actions action toolbar controls tools edit icon icons link links vote like \
     likes report copybutton toggle control permalink",
];

/// Maximum number of bytes of class names that are looked at.
const CLASS_BYTES_MAX: usize = 400;
/// No word in the lists is longer.
const WORD_BYTES_MAX: usize = 20;

/// Words in order, each with its group.
pub(crate) struct Words {
    sorted: Vec<(&'static str, u8)>,
    /// Start in `sorted` of the words with each first letter.
    starts: [u16; 27],
}

impl Words {
    /// The lists of this file.
    pub(crate) fn of_classes() -> Words {
        let (sorted, starts) = sort(&WORDS, ' ');
        Words { sorted, starts }
    }

    /// The groups, as bits, of the words in a class name or id.
    pub(crate) fn groups(&self, names: &str) -> u32 {
        let names = &names.as_bytes()[..names.len().min(CLASS_BYTES_MAX)];
        let mut groups = 0;
        let mut word = [0; WORD_BYTES_MAX];
        let mut length = 0;
        let mut last_lower = false;
        for &byte in names {
            let letter = byte.is_ascii_alphabetic();
            if !letter || (byte.is_ascii_uppercase() && last_lower) {
                groups |= self.group(&word[..length.min(WORD_BYTES_MAX)]);
                length = 0;
            }
            if letter {
                if length < WORD_BYTES_MAX {
                    word[length] = byte.to_ascii_lowercase();
                }
                length += 1;
            }
            last_lower = byte.is_ascii_lowercase();
        }
        groups | self.group(&word[..length.min(WORD_BYTES_MAX)])
    }

    fn group(&self, word: &[u8]) -> u32 {
        if word.len() < 2 {
            return 0;
        }
        let letter = usize::from(word[0] - b'a');
        let words = &self.sorted[usize::from(self.starts[letter])..usize::from(self.starts[letter + 1])];
        words.binary_search_by(|(known, _)| known.as_bytes().cmp(word)).map_or(0, |at| 1 << words[at].1)
    }
}

/// Number of groups of phrases.
pub(crate) const PHRASE_GROUPS: usize = 10;

/// Phrases in short texts that are about the page rather than of it, in English and some other languages. Each group is
/// one feature.
const PHRASES: [&str; PHRASE_GROUPS] = [
    "cookie|privacy policy|terms of|all rights reserved|copyright|legal notice|imprint|\
     datenschutz|impressum|alle rechte|política de privac|todos os direitos|todos los derechos|\
     mentions légales|tous droits|tutti i diritti",
    "subscribe|newsletter|sign up|inbox|email address|your email|unsubscribe|abonnieren|inscreva|\
     suscr|abonnez|iscriviti|assine",
    "log in|login|sign in|register|create account|my account|password|join now|forgot|anmelden|\
     registrieren|entrar|iniciar ses|se connecter|accedi|cadastr",
    "share this|share on|share|tweet|follow us|facebook|linkedin|whatsapp|copy link|teilen|\
     compartilh|compartir|partager|condividi|delen|siga|folgen sie|suivez|seguici",
    "read more|learn more|see more|view all|show more|see all|load more|continue reading|\
     view more|shop now|more info|weiterlesen|mehr lesen|mehr erfahren|leia mais|saiba mais|\
     leer más|lire la suite|en savoir plus|leggi tutto|lees meer|ver mais|ver todo",
    "related|you may also|you might also|recommended|popular|trending|latest|more from|also like|\
     recent posts|next|previous|up next|lesen sie auch|das könnte|mehr zum thema|leia também|\
     veja também|você pode gostar|mais lidas|relacionad|lea también|te puede interesar|\
     lire aussi|sur le même|leggi anche|lees ook|siguiente|anterior|articles similaires|\
     potrebbe interessar",
    "comment|reply|leave a|replies|post a|your name|upvote|report|quote|likes|kommentar|comentar|\
     comentár|commenta|commenti|antworten|responder|répondre|rispondi|reacties|deixe |deja ",
    "advertis|sponsored|promoted|affiliate|commission|disclosure|javascript|browser|anzeige|\
     werbung|publicidad|publicité|pubblicità|patrocinad",
    "add to cart|add to bag|in stock|out of stock|free shipping|delivery|returns|quantity|\
     wishlist|buy now|checkout|sold out|sale price|regular price|warenkorb|lieferung|carrinho|\
     carrito|panier|carrello",
    "posted|published|updated|written by|min read|minutes read|author|by |ago|views|edited|\
     joined|member|veröffentlicht|aktualisiert|publicado|atualizado|actualizado|publié|\
     pubblicato|escrito por|redação|autor",
];

/// The phrases in order, each with its group.
pub(crate) struct Phrases {
    sorted: Vec<(&'static str, u8)>,
    starts: [u16; 27],
}

impl Phrases {
    /// The lists of this file.
    pub(crate) fn of_texts() -> Phrases {
        let (sorted, starts) = sort(&PHRASES, '|');
        Phrases { sorted, starts }
    }

    /// The groups, as bits, of the phrases that begin with a word of a text in lower case.
    pub(crate) fn groups(&self, text: &str) -> u32 {
        let mut groups = 0;
        let mut last = b' ';
        for (at, &byte) in text.as_bytes().iter().enumerate() {
            if byte.is_ascii_lowercase() && !last.is_ascii_lowercase() {
                let letter = usize::from(byte - b'a');
                let listed = usize::from(self.starts[letter])..usize::from(self.starts[letter + 1]);
                for (phrase, group) in &self.sorted[listed] {
                    if text.as_bytes()[at..].starts_with(phrase.as_bytes()) {
                        groups |= 1 << group;
                    }
                }
            }
            last = byte;
        }
        groups
    }
}

/// Sorts lists of words that begin with a letter, each with the number of its list, and finds the start of each letter.
fn sort(lists: &[&'static str], between: char) -> (Vec<(&'static str, u8)>, [u16; 27]) {
    let listed = lists.iter().enumerate();
    let mut sorted: Vec<(&str, u8)> =
        listed.flat_map(|(group, words)| words.split(between).map(move |word| (word, group as u8))).collect();
    sorted.sort_unstable();
    let starts = std::array::from_fn(|letter| {
        sorted.partition_point(|(word, _)| word.as_bytes()[0] < b'a' + letter as u8) as u16
    });
    (sorted, starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_name_is_read_word_by_word() {
        let words = Words::of_classes();
        assert_eq!(words.groups("siteNav top-left"), 1 << 0 | 1 << 3);
        assert_eq!(words.groups("navy commentary"), 0);
        assert_eq!(words.groups("user_comments2"), 1 << 4 | 1 << 22);
        assert_eq!(words.groups(&"x".repeat(10_000)), 0);
    }

    #[test]
    fn no_word_is_in_two_groups() {
        let words = Words::of_classes();
        for pair in words.sorted.windows(2) {
            assert!(pair[0].0 != pair[1].0, "{}", pair[0].0);
            assert!(pair[0].0.len() <= WORD_BYTES_MAX);
        }
    }
}
