//! The language of a text, by its letters and groups of three letters.

use whatlang::Detector;

/// Maximum number of letters that are looked at: more do not make the answer better.
const LETTERS_MAX: usize = 1_000;
/// Minimum number of letters: the language of a shorter text is a guess.
const LETTERS_MIN: usize = 20;

/// The language of a text as a code of ISO 639-3, as Common Crawl has them. None if the text is too short or its script is
/// not known.
pub fn language(text: &str) -> Option<&'static str> {
    let letters = text.chars().filter(|letter| letter.is_alphabetic()).take(LETTERS_MIN).count();
    if letters < LETTERS_MIN {
        return None;
    }
    let end = text.char_indices().nth(LETTERS_MAX).map_or(text.len(), |(at, _)| at);
    let code = Detector::new().detect_lang(&text[..end])?.code();
    Some(match code {
        // The whole language instead of one form.
        "cmn" => "zho",
        "nob" => "nor",
        "pes" => "fas",
        code => code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_of_a_sentence_is_found() {
        let texts = [
            ("eng", "The bridge across the harbour is open again after eleven months of repairs."),
            ("deu", "Die Brücke über den Hafen ist nach elf Monaten der Reparatur wieder offen."),
            ("fra", "Le pont qui traverse le port est de nouveau ouvert après onze mois de travaux."),
            ("rus", "Мост через гавань снова открыт после одиннадцати месяцев ремонта."),
            ("jpn", "港の橋は十一か月の修理を終えて、ふたたび通れるようになりました。"),
            ("zho", "港口的桥经过十一个月的维修之后今天重新开放了车辆可以通行"),
        ];
        for (code, text) in texts {
            assert_eq!(language(text), Some(code), "{text}");
        }
    }

    #[test]
    fn a_short_text_has_no_language() {
        assert_eq!(language("open"), None);
        assert_eq!(language("1234567890 1234567890 1234567890"), None);
        assert_eq!(language(""), None);
    }
}
