//! The log for followers over HTTP: each line as JSON.

use std::io;

use serde_json::Value;

use super::{LogTail, Tailed};
use crate::hub::Lines;

impl Lines for LogTail {
    fn look(&mut self, max: usize) -> io::Result<(Vec<Value>, u64)> {
        let Tailed { lines, dropped } = LogTail::look(self, max)?;
        let lines: Result<_, _> = lines.iter().map(serde_json::to_value).collect();
        Ok((lines?, dropped))
    }
}
