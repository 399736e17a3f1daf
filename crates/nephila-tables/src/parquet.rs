//! Rows to Parquet: zstd, groups of rows of bounded size, one column after the other.
//!
//! Rows are collected until a group is full; then they are sorted, if their table has an order, and written. A table of
//! any size passes in the memory of one group.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::capture::CaptureRow;
use crate::link::LinkRow;
use crate::table::{Cell, Kind, Row};

/// Maximum number of rows in a group.
pub const GROUP_ROWS_MAX: usize = 65_536;
/// Maximum bytes of the rows in a group: one table holds this much in memory.
pub const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Level of compression: three times smaller than without, at a few microseconds for a row.
const ZSTD_LEVEL: i32 = 3;

/// A row with an order and with columns that are written in a way of their own.
pub trait Stored: Row {
    /// The column by which the rows of a group are sorted, if any.
    const SORTED_BY: Option<usize> = None;
    /// Columns in which nearly every value is another, but begins like the one before.
    const PREFIXED: &'static [&'static str] = &[];
}

impl Stored for CaptureRow {
    const SORTED_BY: Option<usize> = Some(0);
    const PREFIXED: &'static [&'static str] = &["url_surtkey", "url"];
}

impl Stored for LinkRow {}

/// Writes one table.
pub struct TableWriter<W: Write + Send, R> {
    file: SerializedFileWriter<W>,
    rows: Vec<R>,
    bytes: usize,
    written: u64,
}

impl<W: Write + Send, R: Stored> TableWriter<W, R> {
    /// Begins a table.
    pub fn new(out: W) -> Result<Self> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::Chunk);
        if let Some(column) = R::SORTED_BY {
            let column_idx = i32::try_from(column).unwrap_or_default();
            let sorting = SortingColumn { column_idx, descending: false, nulls_first: false };
            properties = properties.set_sorting_columns(Some(vec![sorting]));
        }
        for name in R::PREFIXED {
            let path = || ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BYTE_ARRAY);
        }
        let schema = Arc::new(parse_message_type(&schema::<R>())?);
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
        Ok(TableWriter { file, rows: Vec::new(), bytes: 0, written: 0 })
    }

    /// Adds a row.
    pub fn push(&mut self, row: R) -> Result<()> {
        self.bytes += row.bytes();
        self.rows.push(row);
        if self.rows.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.written + self.rows.len() as u64
    }

    /// Writes the rest and the footer, with facts about the file in it.
    pub fn finish(mut self, facts: Vec<(String, String)>) -> Result<W> {
        self.flush()?;
        for (key, value) in facts {
            self.file.append_key_value_metadata(KeyValue::new(key, value));
        }
        self.file.into_inner()
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if let Some(column) = R::SORTED_BY {
            let text = |row: &R| match row.cell(column) {
                Cell::Text(text) => text.to_owned(),
                _ => String::new(),
            };
            // Stable: rows with one key stay in the order of the WARC file.
            self.rows.sort_by_cached_key(text);
        }
        let mut group = self.file.next_row_group()?;
        for (at, column) in R::COLUMNS.iter().enumerate() {
            let mut writer = group.next_column()?.expect("the schema has a column for each");
            let cells = self.rows.iter().map(|row| row.cell(at));
            write_column(&mut writer, column.kind, column.is_nullable, cells)?;
            writer.close()?;
        }
        group.close()?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    is_nullable: bool,
    cells: impl ExactSizeIterator<Item = Cell<'a>>,
) -> Result<()> {
    let mut levels: Vec<i16> = Vec::with_capacity(cells.len());
    let present = cells.filter(|cell| {
        levels.push(i16::from(*cell != Cell::Null));
        *cell != Cell::Null
    });
    // Values are collected before the levels are read: the iterator fills them.
    macro_rules! write {
        ($type:ty, $pattern:pat => $value:expr) => {{
            let values: Vec<_> = present
                .map(|cell| match cell {
                    $pattern => $value,
                    other => unreachable!("a column of {kind:?} holds {other:?}"),
                })
                .collect();
            let levels = is_nullable.then_some(levels.as_slice());
            writer.typed::<$type>().write_batch(&values, levels, None)?;
        }};
    }
    match kind {
        Kind::Text => write!(ByteArrayType, Cell::Text(text) => ByteArray::from(text)),
        Kind::Short | Kind::Int => write!(Int32Type, Cell::Int(number) => number),
        Kind::Long | Kind::Time => write!(Int64Type, Cell::Long(number) => number),
        Kind::Bool => write!(BoolType, Cell::Bool(says) => says),
    }
    Ok(())
}

/// The schema of a table, in Parquet's notation.
pub fn schema<R: Row>() -> String {
    let mut schema = format!("message {} {{\n", R::TABLE);
    for column in R::COLUMNS {
        let (kind, name, meaning) = column.kind.in_schema(column.name);
        let repetition = if column.is_nullable { "OPTIONAL" } else { "REQUIRED" };
        schema += &format!("  {repetition} {kind} {name}{meaning};\n");
    }
    schema + "}\n"
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;

    fn capture(url: &str, depth: Option<i32>) -> CaptureRow {
        CaptureRow {
            url_surtkey: url.into(),
            url: url.into(),
            depth,
            fetch_status: 200,
            ..CaptureRow::default()
        }
    }

    fn written(rows: Vec<CaptureRow>) -> Vec<u8> {
        let mut writer = TableWriter::new(Vec::new()).unwrap();
        rows.into_iter().for_each(|row| writer.push(row).unwrap());
        writer.finish(vec![("a".into(), "b".into())]).unwrap()
    }

    #[test]
    fn rows_come_back_sorted_and_groups_are_bounded() {
        let count = 40_000;
        let rows = (0..count).map(|n| capture(&format!("u{:06}", count - n), (n % 2 == 0).then_some(n)));
        let bytes = written(rows.collect());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), i64::from(count));
        let in_first = reader.metadata().row_group(0).num_rows();
        let bytes_of_row = capture("u000001", None).bytes();
        assert_eq!(in_first as usize, GROUP_BYTES_MAX.div_ceil(bytes_of_row).min(GROUP_ROWS_MAX));
        let first = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
        let fields: Vec<_> = first.get_column_iter().collect();
        assert_eq!(fields.len(), CaptureRow::COLUMNS.len());
        let last_of_group = i64::from(count) - in_first + 1;
        assert_eq!(fields[1].1.to_string(), format!("\"u{last_of_group:06}\""));
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        let rows = || (0..1_000).map(|n| capture(&format!("u{}", n * 7 % 1_000), None)).collect();
        assert_eq!(written(rows()), written(rows()));
        assert!(!written(Vec::new()).is_empty(), "a table without rows is a file");
    }

    #[test]
    fn a_schema_says_what_is_always_there() {
        let schema = schema::<LinkRow>();
        assert!(schema.starts_with("message links {\n  REQUIRED BYTE_ARRAY source (STRING);\n"), "{schema}");
        assert!(schema.contains("  OPTIONAL BYTE_ARRAY anchor (STRING);\n"));
        assert!(schema.contains("  REQUIRED INT64 fetch_time (TIMESTAMP(MILLIS,false));\n"));
    }
}
