//! Report on pages whose main texts are nearly the same, by the fingerprints of the tables.

use std::collections::HashMap;

use nephila_engine::crawl::tables::decode;
use nephila_engine::exit::Exit;
use nephila_tables::simhash;

use super::links::origin;
use super::{KEYS_MAX, Report};
use crate::table::{Column, Table};

impl Report {
    /// Lists the pages of each group; the largest group is first. A page that was fetched again counts as last fetched.
    pub(super) fn near_duplicates(&mut self) -> anyhow::Result<Exit> {
        let Some(tables) = &self.tables else { anyhow::bail!("there is no archive to read texts from") };
        let mut pages: HashMap<String, u64> = HashMap::new();
        let mut beyond = 0;
        for file in tables.files()? {
            tables.each_page(&file, false, &decode, &mut |page| {
                if let Some(hash) = page.simhash.filter(|_| self.filter.takes_origin(origin(&page.url))) {
                    if pages.len() >= KEYS_MAX && !pages.contains_key(&page.url) {
                        beyond += 1;
                    } else {
                        pages.insert(page.url, hash);
                    }
                }
                true
            })?;
        }
        anyhow::ensure!(
            !pages.is_empty(),
            "the archive holds no main texts: crawl with `--set handler.text=all` (`nephila extract` comes too late for this report)"
        );
        self.beyond += beyond;
        let mut pages: Vec<(String, u64)> = pages.into_iter().collect();
        pages.sort_unstable();
        let hashes: Vec<u64> = pages.iter().map(|(_, hash)| *hash).collect();
        let columns: &[Column] = &[("group", 6), ("urls", 6), ("simhash", 16), ("url", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        let rows = simhash::groups(&hashes).into_iter().zip(1_u64..);
        let rows = rows.flat_map(|(group, number)| {
            let urls = group.len() as u64;
            group.into_iter().map(move |place| (number, urls, place))
        });
        for (number, urls, place) in rows.take(self.limit) {
            let (url, hash) = &pages[place];
            table.row(&[number.into(), urls.into(), format!("{hash:016x}").into(), url.clone().into()])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }
}
