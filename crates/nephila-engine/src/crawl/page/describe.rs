//! The notes of a capture's metadata record: its text, the usage preferences, what tables need, the outlinks.

use nephila_core::handler::outlinks::Outlinks;
use nephila_core::handler::table_notes;
use nephila_core::simhash::simhash;
use nephila_core::spider::outcome::Action;

use super::{Capture, Visit, complain};
use crate::crawl::{text, usage};

impl Capture<'_> {
    /// Adds the text, the usage preferences, what tables need, and the outlinks to the notes.
    pub(crate) async fn describe(&mut self) -> anyhow::Result<()> {
        if self.asked.fetched.outcome.action() == Action::Keep {
            self.describe_text().await?;
        }
        let Some(exchange) = self.exchange.as_mut().filter(|_| self.visit.shared.keeps_metadata()) else {
            return Ok(());
        };
        let notes = self.findings.iter().flat_map(|findings| &findings.notes);
        exchange.notes.extend(notes.map(|(name, value)| (*name, value)));
        let redirect = self.asked.fetched.redirect.as_ref();
        let outlinks = Outlinks::of(self.findings.as_deref(), redirect);
        exchange.notes.extend(table_notes::of(self.findings.as_deref(), redirect, &outlinks));
        exchange.notes.append(&outlinks.lines);
        if outlinks.omitted > 0 {
            exchange.notes.push("outlinksOmitted", &outlinks.omitted.to_string());
        }
        Ok(())
    }

    async fn describe_text(&mut self) -> anyhow::Result<()> {
        let Visit { shared, ticket, url, .. } = &*self.visit;
        let fetched = &mut self.asked.fetched;
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let article = match shared.settings.handler.text.wants(ticket.read_as) {
            true => Box::pin(text::article(shared, ticket.read_as, url, fetched)).await,
            false => Ok(None),
        };
        match article {
            Ok(Some(article)) => {
                exchange.notes.extend(article.notes());
                self.simhash = simhash(&article.text).unwrap_or(0);
                exchange.text = article.text.into();
            }
            Ok(None) => {}
            // The links are known; only the text is missing.
            Err(why) => {
                complain(url, why)?;
                fetched.detail = "looking for its text did not end in time".into();
            }
        }
        let lines = usage::lines(shared, url, self.findings.as_deref()).await;
        exchange.notes.extend(lines.into_iter().map(|line| ("usage", line)));
        Ok(())
    }
}
