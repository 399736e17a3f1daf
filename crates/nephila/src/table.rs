//! Rows of a report in the requested format, each written immediately.

use std::io::{self, Write};

use nephila_core::text::shown;

use crate::cli::ask::TableFormat;

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A number.
    Number(u64),
    /// Text, possibly of third parties.
    Text(String),
    /// Nothing.
    None,
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::None, Into::into)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::None => String::new(),
        }
    }
}

/// Name of a column, and its width on a terminal. Longer text makes its row wider and is never cut.
pub(crate) type Column = (&'static str, usize);

/// Numeric columns: right-aligned on a terminal.
const NUMBERS: [&str; 12] = [
    "requests",
    "ok",
    "not_ok",
    "bytes",
    "mean_ms",
    "pages",
    "trap_links",
    "urls",
    "count",
    "partition",
    "hosts",
    "left",
];

/// A table that is being written.
pub(crate) struct Table<'a> {
    out: &'a mut dyn Write,
    format: TableFormat,
    columns: &'a [Column],
    rows: u64,
    /// Whether a row is a failure, for CI systems.
    is_failing: bool,
    /// Test cases, which stand behind their number.
    cases: String,
}

impl<'a> Table<'a> {
    /// Writes the column names.
    pub(crate) fn begin(
        out: &'a mut dyn Write,
        format: TableFormat,
        columns: &'a [Column],
    ) -> io::Result<Table<'a>> {
        let names: Vec<Cell> = columns.iter().map(|(name, _)| Cell::from(*name)).collect();
        let (is_failing, cases) = (false, String::new());
        let mut table = Table { out, format, columns, rows: 0, is_failing, cases };
        match format {
            TableFormat::Json | TableFormat::Junit => {}
            TableFormat::Html => {
                writeln!(table.out, "{HTML_BEGIN}")?;
                table.html("th", &names)?;
            }
            TableFormat::Md => {
                table.write(&names)?;
                let rules: Vec<Cell> = columns.iter().map(|_| Cell::from("---")).collect();
                table.write(&rules)?;
            }
            TableFormat::Table | TableFormat::Csv => table.write(&names)?,
        }
        Ok(table)
    }

    /// Each row is a failure: a CI system shows it as a failed test.
    pub(crate) fn failing(mut self) -> Table<'a> {
        self.is_failing = true;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for every column");
        self.rows += 1;
        match self.format {
            TableFormat::Json => {}
            TableFormat::Html => return self.html("td", cells),
            TableFormat::Junit => {
                self.case(cells);
                return Ok(());
            }
            TableFormat::Table | TableFormat::Csv | TableFormat::Md => return self.write(cells),
        }
        let mut object = serde_json::Map::new();
        for ((name, _), cell) in self.columns.iter().zip(cells) {
            let value = match cell {
                Cell::Number(number) => (*number).into(),
                Cell::Text(text) => text.as_str().into(),
                Cell::None => serde_json::Value::Null,
            };
            object.insert((*name).to_owned(), value);
        }
        writeln!(self.out, "{}", json(&object))
    }

    /// Number of rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the end.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.format {
            TableFormat::Html => writeln!(self.out, "</table>"),
            TableFormat::Junit => {
                let failures = if self.is_failing { self.rows } else { 0 };
                writeln!(
                    self.out,
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"nephila\" tests=\"{}\" \
                     failures=\"{failures}\">\n{}</testsuite></testsuites>",
                    self.rows, self.cases
                )
            }
            TableFormat::Table | TableFormat::Json | TableFormat::Csv | TableFormat::Md => Ok(()),
        }
    }

    fn html(&mut self, element: &str, cells: &[Cell]) -> io::Result<()> {
        let mut line = String::from("<tr>");
        for cell in cells {
            let text = escaped(&cell.text());
            // Nothing but a link of the web becomes a link.
            let is_link =
                ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) && !text.contains(' ');
            match is_link {
                true => line += &format!("<{element}><a rel=noreferrer href=\"{text}\">{text}</a>"),
                false => line += &format!("<{element}>{text}"),
            }
        }
        writeln!(self.out, "{line}")
    }

    /// Adds a test case: named by the URL of the row, or by its last cell.
    fn case(&mut self, cells: &[Cell]) {
        let at = |name: &str| self.columns.iter().position(|(column, _)| *column == name);
        let name = at("url").or_else(|| at("from")).unwrap_or(cells.len().saturating_sub(1));
        let url = cells.get(name).map(Cell::text).unwrap_or_default();
        let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?']).next()).unwrap_or("crawl");
        let named = self.columns.iter().zip(cells).filter(|(_, cell)| **cell != Cell::None);
        let facts: Vec<String> =
            named.map(|((column, _), cell)| format!("{column}: {}", cell.text())).collect();
        let (url, host, facts) = (escaped(&url), escaped(host), escaped(&facts.join("\n")));
        let what = if self.is_failing { "failure" } else { "system-out" };
        let message = cells.get(1).map(|cell| escaped(&cell.text())).unwrap_or_default();
        let message = if self.is_failing { format!(" message=\"{message}\"") } else { String::new() };
        self.cases += &format!(
            "<testcase classname=\"{host}\" name=\"{url}\"><{what}{message}>{facts}</{what}></testcase>\n"
        );
    }

    fn write(&mut self, cells: &[Cell]) -> io::Result<()> {
        let mut line = String::new();
        let last = cells.len().saturating_sub(1);
        for (number, (cell, (name, width))) in cells.iter().zip(self.columns).enumerate() {
            let is_number = matches!(cell, Cell::Number(_)) || NUMBERS.contains(name);
            let text = match cell {
                Cell::Number(number) => number.to_string(),
                Cell::Text(text) => match self.format {
                    // For programs: nothing is escaped for display, and quotes delimit the field.
                    TableFormat::Csv => quoted(text),
                    TableFormat::Md => shown(text).to_string().replace('|', "\\|"),
                    _ => shown(text).to_string(),
                },
                Cell::None => String::new(),
            };
            match self.format {
                TableFormat::Csv if number > 0 => line.push(','),
                TableFormat::Md => line.push_str("| "),
                TableFormat::Table if number > 0 => line.push_str("  "),
                _ => {}
            }
            match self.format {
                TableFormat::Table if is_number => line.push_str(&format!("{text:>width$}")),
                TableFormat::Table if number < last => line.push_str(&format!("{text:<width$}")),
                TableFormat::Md => line.push_str(&format!("{text} ")),
                _ => line.push_str(&text),
            }
        }
        if self.format == TableFormat::Md {
            line.push('|');
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// The beginning of a page: no scripts, and nothing from elsewhere.
const HTML_BEGIN: &str = "<!doctype html><meta charset=utf-8><title>Nephila</title><style>\
    body{font:14px system-ui}table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:left;\
    border-bottom:1px solid #ccc;overflow-wrap:anywhere}</style><table>";

/// Text for HTML and XML; control characters, which XML forbids, are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Quotes a field according to RFC 4180.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// JSON as one line of ASCII: safe for a terminal, and equivalent for a parser.
pub(crate) fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("strings and numbers can be written");
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text;
    }
    let mut ascii = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if matches!(char, ' '..='~') {
            ascii.push(char);
        } else {
            // Outside ASCII there are only strings, where an escape is always right.
            for unit in char.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(format: TableFormat) -> String {
        let mut out = Vec::new();
        let mut table = Table::begin(&mut out, format, &[("n", 3), ("what", 6), ("url", 0)]).unwrap();
        table.row(&[7.into(), "a,\"b|".into(), "http://x/\u{202e}".into()]).unwrap();
        table.row(&[12_345.into(), Cell::None, "y".into()]).unwrap();
        assert_eq!(table.rows(), 2);
        table.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_looks_as_its_format_wants() {
        assert_eq!(
            printed(TableFormat::Table),
            "n    what    url\n  7  a,\"b|   http://x/\\u{202e}\n12345          y\n"
        );
        assert_eq!(printed(TableFormat::Csv), "n,what,url\n7,\"a,\"\"b|\",http://x/\u{202e}\n12345,,y\n");
        assert_eq!(
            printed(TableFormat::Md),
            "| n | what | url |\n| --- | --- | --- |\n| 7 | a,\"b\\| | http://x/\\u{202e} |\n| 12345 |  | y |\n"
        );
        assert_eq!(
            printed(TableFormat::Json),
            "{\"n\":7,\"url\":\"http://x/\\u202e\",\"what\":\"a,\\\"b|\"}\n{\"n\":12345,\"url\":\"y\",\"what\":null}\n"
        );
    }

    #[test]
    fn json_is_ascii_and_means_the_same() {
        let text = "é \u{202e} 😀 \u{7f} \u{9b} \\ \" \n";
        let line = json(&text);
        assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn pages_and_test_cases_escape_what_the_web_says() {
        let columns: &[Column] = &[("status", 0), ("outcome", 0), ("url", 0)];
        let printed = |format| {
            let mut out = Vec::new();
            let mut table = Table::begin(&mut out, format, columns).unwrap().failing();
            table.row(&[404.into(), "<b>".into(), "http://a.test/?x='\"&\u{1}".into()]).unwrap();
            table.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        let url = "http://a.test/?x=&#39;&quot;&amp;\u{fffd}";
        let html = printed(TableFormat::Html);
        assert!(
            html.ends_with(&format!(
                "<td>404<td>&lt;b&gt;<td><a rel=noreferrer href=\"{url}\">{url}</a>\n</table>\n"
            )),
            "{html}"
        );
        let junit = printed(TableFormat::Junit);
        assert!(junit.contains("tests=\"1\" failures=\"1\""), "{junit}");
        assert!(
            junit.contains(&format!(
                "<testcase classname=\"a.test\" name=\"{url}\"><failure message=\"&lt;b&gt;\">"
            )),
            "{junit}"
        );
    }
}
