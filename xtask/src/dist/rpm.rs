//! An RPM package, as rpm 4 reads it: a lead, two headers (digests, and everything about the package), and a cpio archive.
//!
//! Invariant: a header is an index of tags in ascending order, behind one that covers all of them (the region).

use anyhow::Result;

use super::sha256;
use super::tar::{IS_FILE, IS_FOLDER, cpio, gzip, pad};
use super::tree::Tree;
use super::{About, scripts};

/// Folders that are removed with the package, if nobody else has a file there: ours, and those that a system may not have.
const OWNED: [&str; 8] = [
    "usr/lib/sysusers.d",
    "usr/share/doc/nephila",
    "usr/share/fish",
    "usr/share/fish/vendor_completions.d",
    "usr/share/licenses",
    "usr/share/licenses/nephila",
    "usr/share/zsh",
    "usr/share/zsh/site-functions",
];
/// `less or equal`, on a feature of rpm itself.
const FEATURE: u32 = 1 << 24 | 1 << 3 | 1 << 1;
/// A need of the scripts: `/bin/sh`.
const OF_SCRIPTS: u32 = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// Number of SHA-256 among the digests.
const SHA256: u32 = 8;

/// The package.
pub(crate) fn package(about: &About, files: &Tree) -> Result<Vec<u8>> {
    let owns = |path: &str| OWNED.contains(&path);
    let archive = cpio(files, owns, about.time);
    let payload = gzip(&archive)?;
    let mut header = Header::default();
    describe(&mut header, about);
    list(&mut header, about, files);
    header.strings(5_092, vec![sha256(&payload)]);
    header.numbers(5_093, vec![SHA256]);
    let header = header.bytes(63);

    let mut signature = Header::default();
    signature.text(273, &sha256(&header));
    signature.numbers(1_000, vec![(header.len() + payload.len()) as u32]);
    signature.numbers(1_007, vec![archive.len() as u32]);
    let mut out = lead(about);
    out.extend(signature.bytes(62));
    pad(&mut out, 8);
    out.extend(header);
    out.extend(payload);
    Ok(out)
}

/// File name of the package.
pub(crate) fn name(about: &About) -> String {
    format!("nephila-{}-1.{}.rpm", about.version, about.arch.name)
}

fn lead(about: &About) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, about.arch.rpm_number];
    lead.extend(format!("nephila-{}-1", about.version).bytes().take(65));
    lead.resize(10 + 66, 0);
    // Linux, with a signature header.
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

/// What the package is, needs and does.
fn describe(header: &mut Header, about: &About) {
    header.strings(100, vec!["C".into()]);
    header.text(1_000, "nephila");
    header.text(1_001, &about.version);
    header.text(1_002, "1");
    header.local(1_004, super::SUMMARY);
    header.local(1_005, super::DESCRIPTION);
    header.numbers(1_006, vec![about.time as u32]);
    header.text(1_014, super::LICENSE);
    header.local(1_016, "Applications/Internet");
    header.text(1_021, "linux");
    header.text(1_022, about.arch.name);
    for (tag, program, script) in
        [(1_024, 1_086, scripts::post()), (1_025, 1_087, scripts::preun()), (1_026, 1_088, scripts::postun())]
    {
        header.text(tag, &script);
        header.text(program, "/bin/sh");
    }
    header.text(1_044, &format!("nephila-{}-1.src.rpm", about.version));
    header.strings(1_047, vec!["nephila".into()]);
    header.numbers(1_112, vec![1 << 3]);
    header.strings(1_113, vec![format!("{}-1", about.version)]);
    let mut needs: Vec<(String, u32, &str)> = vec![
        ("/bin/sh".into(), OF_SCRIPTS, ""),
        ("rpmlib(CompressedFileNames)".into(), FEATURE, "3.0.4-1"),
        ("rpmlib(FileDigests)".into(), FEATURE, "4.6.0-1"),
        ("rpmlib(PayloadFilesHavePrefix)".into(), FEATURE, "4.0-1"),
    ];
    if let Some(glibc) = &about.needs.glibc {
        needs.push((format!("libc.so.6(GLIBC_{glibc})(64bit)"), 0, ""));
        needs.push(("libgcc_s.so.1()(64bit)".into(), 0, ""));
    }
    header.numbers(1_048, needs.iter().map(|need| need.1).collect());
    header.strings(1_049, needs.iter().map(|need| need.0.clone()).collect());
    header.strings(1_050, needs.iter().map(|need| need.2.to_owned()).collect());
    header.text(1_124, "cpio");
    header.text(1_125, "gzip");
    header.text(1_126, "9");
    header.numbers(5_011, vec![SHA256]);
    header.text(5_062, "utf-8");
}

/// The files, in the order of the archive.
fn list(header: &mut Header, about: &About, files: &Tree) {
    let listed: Vec<_> =
        files.iter().filter(|(path, entry)| entry.bytes.is_some() || OWNED.contains(path)).collect();
    let count = listed.len();
    let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(4_096, |bytes| bytes.len() as u32);
    let mut folders: Vec<String> = listed.iter().map(|(path, _)| split(path).0).collect();
    folders.sort();
    folders.dedup();
    let folder = |path: &str| folders.binary_search(&split(path).0).expect("collected above") as u32;
    header.numbers(1_009, vec![files.bytes() as u32]);
    header.numbers(1_028, listed.iter().map(|(_, entry)| size(&entry.bytes)).collect());
    let mode = |is_file| if is_file { IS_FILE } else { IS_FOLDER };
    header.shorts(
        1_030,
        listed.iter().map(|(_, entry)| (entry.mode | mode(entry.bytes.is_some())) as u16).collect(),
    );
    header.shorts(1_033, vec![0; count]);
    header.numbers(1_034, vec![about.time as u32; count]);
    header.strings(
        1_035,
        listed.iter().map(|(_, entry)| entry.bytes.as_deref().map_or_else(String::new, sha256)).collect(),
    );
    header.strings(1_036, vec![String::new(); count]);
    header.numbers(1_037, listed.iter().map(|(path, _)| kind(path)).collect());
    header.strings(1_039, vec!["root".into(); count]);
    header.strings(1_040, vec!["root".into(); count]);
    header.numbers(1_045, vec![u32::MAX; count]);
    header.numbers(1_095, vec![1; count]);
    header.numbers(1_096, (1..=count as u32).collect());
    header.strings(1_097, vec![String::new(); count]);
    header.numbers(1_116, listed.iter().map(|(path, _)| folder(path)).collect());
    header.strings(1_117, listed.iter().map(|(path, _)| split(path).1).collect());
    header.strings(1_118, folders.clone());
}

/// Flags of a file: documentation, a licence, or neither.
fn kind(path: &str) -> u32 {
    match path {
        path if path.starts_with("usr/share/licenses/") => 1 << 7,
        path if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") => 1 << 1,
        _ => 0,
    }
}

/// The folder with a slash at both ends, and the name in it.
fn split(path: &str) -> (String, String) {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    (format!("/{folder}/"), name.to_owned())
}

/// A header in the making.
#[derive(Debug, Default)]
struct Header(Vec<(u32, Value)>);

#[derive(Debug)]
enum Value {
    Shorts(Vec<u16>),
    Numbers(Vec<u32>),
    Text(String),
    Local(String),
    Strings(Vec<String>),
}

impl Header {
    fn numbers(&mut self, tag: u32, numbers: Vec<u32>) {
        self.0.push((tag, Value::Numbers(numbers)));
    }

    fn shorts(&mut self, tag: u32, shorts: Vec<u16>) {
        self.0.push((tag, Value::Shorts(shorts)));
    }

    fn text(&mut self, tag: u32, text: &str) {
        self.0.push((tag, Value::Text(text.to_owned())));
    }

    /// Text that may have translations; there are none.
    fn local(&mut self, tag: u32, text: &str) {
        self.0.push((tag, Value::Local(text.to_owned())));
    }

    fn strings(&mut self, tag: u32, strings: Vec<String>) {
        self.0.push((tag, Value::Strings(strings)));
    }

    /// The bytes of the header, with a region of this tag.
    fn bytes(mut self, region: u32) -> Vec<u8> {
        self.0.sort_by_key(|(tag, _)| *tag);
        let count = self.0.len() as u32 + 1;
        let (mut index, mut store) = (Vec::new(), Vec::new());
        let mut entry = |words: [u32; 4]| words.iter().for_each(|word| index.extend(word.to_be_bytes()));
        // The region's own data comes last: it points back over the whole index.
        let (mut entries, mut end) = (Vec::new(), [0; 4]);
        for (tag, value) in &self.0 {
            let (kind, items) = value.put(&mut store);
            entries.push([*tag, kind, items.0, items.1]);
        }
        end[..].copy_from_slice(&[region, 7, (count * 16).wrapping_neg(), 16]);
        entry([region, 7, store.len() as u32, 16]);
        entries.into_iter().for_each(&mut entry);
        end.iter().for_each(|word| store.extend(word.to_be_bytes()));
        let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        bytes.extend(count.to_be_bytes());
        bytes.extend((store.len() as u32).to_be_bytes());
        bytes.extend(index);
        bytes.extend(store);
        bytes
    }
}

impl Value {
    /// Appends the value, and returns its type, and where it begins and how many items it has.
    fn put(&self, store: &mut Vec<u8>) -> (u32, (u32, u32)) {
        let to = match self {
            Value::Shorts(_) => 2,
            Value::Numbers(_) => 4,
            _ => 1,
        };
        pad(store, to);
        let begins = store.len() as u32;
        let (kind, count) = match self {
            Value::Shorts(shorts) => {
                shorts.iter().for_each(|short| store.extend(short.to_be_bytes()));
                (3, shorts.len())
            }
            Value::Numbers(numbers) => {
                numbers.iter().for_each(|number| store.extend(number.to_be_bytes()));
                (4, numbers.len())
            }
            Value::Text(text) => (6, put_texts(store, std::slice::from_ref(text))),
            Value::Strings(texts) => (8, put_texts(store, texts)),
            Value::Local(text) => (9, put_texts(store, std::slice::from_ref(text))),
        };
        (kind, (begins, count as u32))
    }
}

fn put_texts(store: &mut Vec<u8>, texts: &[String]) -> usize {
    for text in texts {
        store.extend_from_slice(text.as_bytes());
        store.push(0);
    }
    texts.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::tests::about;
    use crate::dist::tree::{FILE, PROGRAM};

    #[test]
    fn a_header_is_an_index_behind_its_region() {
        let mut header = Header::default();
        header.text(9, "ab");
        header.numbers(3, vec![5]);
        let bytes = header.bytes(63);
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(8), word(12)), (3, 4 + 3 + 16), "three entries, and what they hold");
        assert_eq!([word(16), word(20), word(24), word(28)], [63, 7, 7, 16]);
        assert_eq!([word(32), word(36), word(40), word(44)], [3, 4, 0, 1], "in ascending order");
        assert_eq!(&bytes[64 + 4..64 + 7], b"ab\0");
        assert_eq!(word(64 + 7 + 8), (3_u32 * 16).wrapping_neg());
    }

    #[test]
    fn a_package_begins_as_it_must_and_is_the_same_twice() {
        let mut files = Tree::default();
        files.file("usr/bin/nephila", PROGRAM, "program");
        files.file("usr/share/doc/nephila/notes", FILE, "notes");
        let made = package(&about(), &files).unwrap();
        assert_eq!(made[..4], [0xed, 0xab, 0xee, 0xdb]);
        assert_eq!(made[96..99], [0x8e, 0xad, 0xe8], "the header of the digests follows the lead");
        assert_eq!(made, package(&about(), &files).unwrap());
    }
}
