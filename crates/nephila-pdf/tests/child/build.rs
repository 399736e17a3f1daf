//! Small PDFs, written by hand.

use std::io::Write;

use flate2::{Compress, Compression, FlushCompress};

/// A document under construction. Object 1 is the catalog, 2 the page tree.
#[derive(Default)]
pub(crate) struct Document {
    /// Number and body of each object.
    objects: Vec<(usize, Vec<u8>)>,
    /// Further entries of the trailer.
    pub(crate) trailer: String,
}

/// The Helvetica font, as a resource named F.
pub(crate) const FONT: &str = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>";

impl Document {
    /// One page with this content and the font F.
    pub(crate) fn page(content: &str) -> Document {
        Document::pages(&[content])
    }

    /// Pages with these contents.
    pub(crate) fn pages(contents: &[&str]) -> Document {
        let mut document = Document::default();
        document.object(1, "<< /Type /Catalog /Pages 2 0 R >>");
        let kids: String = (0..contents.len()).map(|at| format!("{} 0 R ", 10 + 2 * at)).collect();
        document.object(2, &format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", contents.len()));
        for (at, content) in contents.iter().enumerate() {
            let (page, stream) = (10 + 2 * at, 11 + 2 * at);
            document.leaf(page, stream, FONT);
            document.stream(stream, "", content.as_bytes());
        }
        document
    }

    /// A page object with a content stream and resources.
    pub(crate) fn leaf(&mut self, number: usize, content: usize, resources: &str) {
        let size = "/MediaBox [0 0 612 792]";
        let page = format!(
            "<< /Type /Page /Parent 2 0 R {size} /Resources << {resources} >> /Contents {content} 0 R >>"
        );
        self.object(number, &page);
    }

    /// Adds an object, or replaces it.
    pub(crate) fn object(&mut self, number: usize, body: &str) {
        self.bytes(number, body.as_bytes().to_vec());
    }

    /// Adds a stream with further entries in its dictionary.
    pub(crate) fn stream(&mut self, number: usize, entries: &str, data: &[u8]) {
        let mut body = format!("<< /Length {} {entries} >>\nstream\n", data.len()).into_bytes();
        body.extend_from_slice(data);
        body.extend_from_slice(b"\nendstream");
        self.bytes(number, body);
    }

    fn bytes(&mut self, number: usize, body: Vec<u8>) {
        self.objects.retain(|(other, _)| *other != number);
        self.objects.push((number, body));
    }

    /// The document with a table of its objects.
    pub(crate) fn finish(&self) -> Vec<u8> {
        let (mut pdf, places) = self.body();
        let start = pdf.len();
        pdf.extend_from_slice(b"xref\n0 1\n0000000000 65535 f \n");
        for (number, place) in places {
            write!(pdf, "{number} 1\n{place:010} 00000 n \n").unwrap();
        }
        write!(pdf, "trailer\n<< /Root 1 0 R /Size 9999 {} >>\nstartxref\n{start}\n%%EOF\n", self.trailer)
            .unwrap();
        pdf
    }

    /// The document with its objects in an object stream, as far as they are no streams, and a table that is a stream.
    pub(crate) fn finish_packed(&self) -> Vec<u8> {
        let is_stream = |body: &[u8]| body.ends_with(b"endstream");
        let (streams, plain): (Vec<_>, Vec<_>) =
            self.objects.iter().cloned().partition(|(_, body)| is_stream(body));
        let (mut index, mut packed) = (String::new(), Vec::new());
        for (number, body) in &plain {
            index += &format!("{number} {} ", packed.len());
            packed.extend_from_slice(body);
            packed.push(b' ');
        }
        let data = flate(&[index.as_bytes(), &packed].concat());
        let mut document = Document { objects: streams, trailer: String::new() };
        let entries = format!("/Type /ObjStm /N {} /First {} /Filter /FlateDecode", plain.len(), index.len());
        document.stream(900, &entries, &data);
        let (mut pdf, places) = document.body();
        let mut rows = Vec::new();
        let mut ranges = String::new();
        let mut row = |number: usize, kind: u8, a: usize, b: usize| {
            ranges += &format!("{number} 1 ");
            rows.push(kind);
            rows.extend_from_slice(&u32::try_from(a).unwrap().to_be_bytes());
            rows.extend_from_slice(&u16::try_from(b).unwrap().to_be_bytes());
        };
        for (at, (number, _)) in plain.iter().enumerate() {
            row(*number, 2, 900, at);
        }
        for (number, place) in places {
            row(number, 1, place, 0);
        }
        let start = pdf.len();
        let rows = flate(&rows);
        let entries =
            format!("/Type /XRef /Size 1000 /W [1 4 2] /Index [{ranges}] /Root 1 0 R /Filter /FlateDecode");
        write!(pdf, "901 0 obj\n<< /Length {} {entries} {} >>\nstream\n", rows.len(), self.trailer).unwrap();
        pdf.extend_from_slice(&rows);
        write!(pdf, "\nendstream\nendobj\nstartxref\n{start}\n%%EOF\n").unwrap();
        pdf
    }

    /// The head and the objects, and where each object starts.
    fn body(&self) -> (Vec<u8>, Vec<(usize, usize)>) {
        let mut pdf = b"%PDF-1.7\n".to_vec();
        let mut places = Vec::new();
        for (number, body) in &self.objects {
            places.push((*number, pdf.len()));
            writeln!(pdf, "{number} 0 obj").unwrap();
            pdf.extend_from_slice(body);
            pdf.extend_from_slice(b"\nendobj\n");
        }
        (pdf, places)
    }
}

/// Compresses bytes for `/FlateDecode`.
pub(crate) fn flate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A stream of `times` times a block of bytes. The block is compressed only once, so that this is quick.
pub(crate) fn flate_repeated(block: &[u8], times: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(6), false);
    let mut once = Vec::with_capacity(block.len() + 1024);
    compress.compress_vec(block, &mut once, FlushCompress::Full).unwrap();
    let mut stream = vec![0x78, 0x9c];
    for _ in 0..times {
        stream.extend_from_slice(&once);
    }
    // A last block that is empty, and the sum of all bytes.
    stream.extend_from_slice(&[0x03, 0x00]);
    let (mut a, mut b) = (1_u64, 0_u64);
    let (sum, weighted) =
        block.iter().rev().enumerate().fold((0_u64, 0_u64), |(sum, weighted), (at, byte)| {
            (sum + u64::from(*byte), weighted + (at as u64 + 1) * u64::from(*byte))
        });
    for _ in 0..times {
        b = (b + a * block.len() as u64 + weighted) % 65521;
        a = (a + sum) % 65521;
    }
    stream.extend_from_slice(&u32::try_from(b << 16 | a).unwrap().to_be_bytes());
    stream
}
