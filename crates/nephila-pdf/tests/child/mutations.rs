//! Good documents with random damage: whatever comes of them, it has a name.

use nephila_pdf::Error;

use crate::build::{Document, FONT, flate};
use crate::process::peak;
use crate::{Test, limits, reader};

pub(crate) const TESTS: &[Test] = &[("mutations::damaged_documents_end", damaged_documents_end)];

/// Number of damaged documents.
const MUTATIONS: u64 = 300;

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let content = "BT /F 12 Tf 14 TL 72 700 Td (one) Tj [(t) -500 (wo)] TJ (three) ' ET /X Do";
    let mut document = Document::pages(&[content, content]);
    document.leaf(10, 11, &format!("{FONT} /XObject << /X 31 0 R >>"));
    document.stream(
        31,
        &format!("/Subtype /Form /BBox [0 0 500 50] /Resources << {FONT} >>"),
        b"BT /F 9 Tf (x) Tj ET",
    );
    document.stream(13, "/Filter /FlateDecode", &flate(content.as_bytes()));
    document.trailer = "/Info << /Title (a title) >>".into();
    vec![document.finish(), document.finish_packed()]
}

fn damaged(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut pdf = seed.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(pdf.len());
        let to = (at + random.below(40)).min(pdf.len());
        match random.below(5) {
            0 => pdf[at] = u8::try_from(random.below(256)).unwrap(),
            1 => pdf[at] ^= 1 << random.below(8),
            2 => drop(pdf.drain(at..to)),
            3 => {
                let copy = pdf[at..to].to_vec();
                let place = random.below(pdf.len());
                pdf.splice(place..place, copy);
            }
            _ => {
                // Another number, since numbers are sizes, places and references.
                let digit = pdf.iter().skip(at).position(u8::is_ascii_digit).map_or(at, |more| at + more);
                pdf[digit] = b'0' + u8::try_from(random.below(10)).unwrap();
            }
        }
        if pdf.len() < 20 {
            break;
        }
    }
    pdf
}

fn damaged_documents_end() {
    let (reader, seeds) = (reader(limits()), seeds());
    for seed in &seeds {
        assert_eq!(reader.read(seed).unwrap().pages_read, 2, "the undamaged document is read");
    }
    let mut random = Random(1);
    let mut ends = std::collections::BTreeMap::<&str, usize>::new();
    let before = peak();
    for number in 0..MUTATIONS {
        let pdf = damaged(&seeds[usize::try_from(number).unwrap() % seeds.len()], &mut random);
        let end = match reader.read(&pdf) {
            Ok(_) => "text",
            Err(Error::NotPdf) => "not a PDF",
            Err(Error::Encrypted) => "encrypted",
            Err(Error::NoText) => "no text",
            Err(Error::OutOfTime) => "out of time",
            Err(Error::OutOfMemory) => "out of memory",
            Err(Error::Crashed(_)) => "crashed",
            Err(error @ (Error::TooLarge(_) | Error::Start(_))) => panic!("{number}: {error}"),
        };
        *ends.entry(end).or_default() += 1;
        crate::process::assert_no_children();
    }
    println!("  {ends:?}");
    assert!(ends.get("text").is_some_and(|texts| *texts > 50), "some damage is small: {ends:?}");
    assert!(peak() - before < 4 << 20, "the parent grew by {} bytes", peak() - before);
}
