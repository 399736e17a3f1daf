//! `nephila sql`: a query over the tables of a crawl, by DuckDB.
//!
//! We bring no query engine. The tables are in a format that DuckDB reads, so the command only says where they are: two
//! views, `captures` and `links`, and the first once more under the name that Common Crawl's example queries use.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_tables::folder::TABLES;
use nephila_tables::query;

use super::out;
use crate::cli::SqlArgs;

/// Runs the command.
pub(super) fn run(args: &SqlArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    let tables = args.tables.clone().unwrap_or_else(|| folder.dir().join(TABLES));
    if query::files(&tables, "captures")?.is_empty() {
        anyhow::bail!(
            "there are no tables in {}: `nephila export parquet -o {}` writes them",
            tables.display(),
            folder.dir().display()
        );
    }
    let tables = tables.canonicalize().with_context(|| tables.display().to_string())?;
    let script = script(&tables, &args.query);
    if !args.print
        && let Some(duckdb) = on_path("duckdb")
    {
        let status = Command::new(duckdb).arg("-c").arg(&script).status().context("running duckdb")?;
        return Ok(if status.success() { Exit::Done } else { Exit::Failed });
    }
    let mut out = out();
    writeln!(out, "duckdb -c {}", quoted_for_shell(&script))?;
    out.flush()?;
    if args.print {
        return Ok(Exit::Done);
    }
    // The query was not run: whoever waits for its answer, or for the file that it writes, has to know.
    eprintln!(
        "nephila: duckdb is not on the PATH, so the query was not run: install it (`pip install duckdb-cli`), or run \
         the printed command line where it is"
    );
    Ok(Exit::Failed)
}

/// The views, then the query.
fn script(tables: &Path, query: &str) -> String {
    let view = |table: &str| {
        let files = format!("{}/{table}/**/*.parquet", tables.display()).replace('\'', "''");
        // A crawl may be named `2026`: names stay texts.
        let how = "hive_partitioning = true, hive_types_autocast = false";
        format!("CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', {how}); ")
    };
    let common_crawl = "CREATE SCHEMA ccindex; CREATE VIEW ccindex.ccindex AS SELECT * FROM captures; ";
    format!("{}{}{common_crawl}{query}", view("captures"), view("links"))
}

fn quoted_for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The first executable of this name on the PATH.
fn on_path(name: &str) -> Option<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |path: &std::path::PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_with_quotes_stay_whole() {
        let script = script(Path::new("/it's/table"), "SELECT 'x'");
        assert!(
            script.contains("read_parquet('/it''s/table/captures/**/*.parquet', hive_partitioning = true,")
        );
        assert!(script.ends_with("FROM captures; SELECT 'x'"), "{script}");
        assert_eq!(quoted_for_shell("a'b"), "'a'\\''b'");
    }
}
