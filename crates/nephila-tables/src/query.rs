//! Reads columns of tables, file by file and row by row: for reports, which need few columns and no query engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::Error;

/// Maximum depth of the folders of a table: crawl and subset.
const DEPTH_MAX: usize = 2;

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Yes or no.
    Bool(bool),
}

impl Value {
    /// The text; empty if there is none.
    pub fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// The number; zero if there is none.
    pub fn number(&self) -> i64 {
        match self {
            Value::Number(number) => *number,
            _ => 0,
        }
    }
}

/// The files of a table (`captures` or `links`), in the order of their paths.
pub fn files(tables: &Path, table: &str) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    collect(&tables.join(table), DEPTH_MAX, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::io("listing", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(Error::io("listing", folder))?.path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            files.push(path);
        }
    }
    Ok(())
}

/// Hands these columns of every row of a table to `give`, in the order of `columns`.
pub fn each(
    tables: &Path,
    table: &str,
    columns: &[&str],
    give: &mut dyn FnMut(&[Value]),
) -> Result<u64, Error> {
    let mut rows = 0;
    for path in files(tables, table)? {
        rows += each_of(&path, table, columns, give)?;
    }
    Ok(rows)
}

/// Like [`each`], for one file.
pub fn each_of(
    path: &Path,
    table: &str,
    columns: &[&str],
    give: &mut dyn FnMut(&[Value]),
) -> Result<u64, Error> {
    let mut rows = 0;
    let file = File::open(path).map_err(Error::io("opening", path))?;
    let reader = SerializedFileReader::new(file).map_err(Error::table(path))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let wanted = schema.root_schema().get_fields().iter();
    let wanted = wanted.filter(|field| columns.contains(&field.name())).cloned().collect();
    let projection = Type::group_type_builder(table).with_fields(wanted).build();
    let projection = projection.map_err(Error::table(path))?;
    let mut values = vec![Value::Null; columns.len()];
    for row in reader.get_row_iter(Some(projection)).map_err(Error::table(path))? {
        for (name, field) in row.map_err(Error::table(path))?.into_columns() {
            if let Some(at) = columns.iter().position(|column| *column == name) {
                values[at] = value(field);
            }
        }
        give(&values);
        rows += 1;
    }
    Ok(rows)
}

fn value(field: Field) -> Value {
    match field {
        Field::Str(text) => Value::Text(text),
        Field::Short(number) => Value::Number(i64::from(number)),
        Field::Int(number) => Value::Number(i64::from(number)),
        Field::Long(number) | Field::TimestampMillis(number) => Value::Number(number),
        Field::Bool(says) => Value::Bool(says),
        _ => Value::Null,
    }
}
