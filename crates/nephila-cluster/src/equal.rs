//! Settings that must be equal on all nodes: each node publishes its own, and all compare.
//!
//! The compared settings are limits of the whole cluster: if one node may request an address every second and another
//! every five seconds, the address is requested every second. No node has precedence, so an alarm names both nodes, and
//! clears when they agree again: settings may be changed node by node.
//!
//! Invariants: only live nodes are compared; an unreadable record is ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use nephila_log::Leases;

use super::alarm;
use nephila_engine::settings::Settings;

/// Prefix of the settings records.
pub(crate) const PREFIX: &str = "settings.";
/// Prefix of the alarms about them.
pub(crate) const ABOUT: &str = "settings-";

/// The compared settings, by name, as JSON.
pub(crate) type Values = BTreeMap<String, serde_json::Value>;

/// The settings that must be equal everywhere.
pub(crate) fn values(settings: &Settings) -> Values {
    let frontier = serde_json::to_value(&settings.frontier).unwrap_or_default();
    let names = ["slot_connections", "slot_delay", "fleets"];
    names.iter().map(|name| (format!("frontier.{name}"), frontier[*name].clone())).collect()
}

/// Compares this node's settings with the settings of other nodes.
#[derive(Debug)]
pub(crate) struct Equal {
    leases: Arc<dyn Leases>,
    node: String,
    own: Values,
    is_written: bool,
    /// The last reported difference; none until alarms of an earlier process are cleared.
    said: Option<String>,
}

impl Equal {
    pub(crate) fn new(leases: Arc<dyn Leases>, node: &str, settings: &Settings) -> Equal {
        Equal { leases, node: node.to_owned(), own: values(settings), is_written: false, said: None }
    }

    /// Compares with the settings of live nodes.
    pub(crate) async fn look(&mut self, living: &[&str]) -> anyhow::Result<()> {
        alarm::clear_of_the_gone(&*self.leases, ABOUT, living).await?;
        let items = self.leases.records(PREFIX).await.context("reading the settings of others")?;
        if !self.is_written {
            let key = format!("{PREFIX}{}", self.node);
            let old = items.iter().find(|item| item.key == key);
            let value = serde_json::to_vec(&self.own).context("settings as JSON")?;
            if old.is_none_or(|old| old.value != value) {
                let put = self.leases.put(&key, old.map(|old| old.revision), value.into()).await;
                // On a conflict with a process of the same name, the next poll tries again.
                self.is_written = put.context("writing the settings")?.is_some();
            } else {
                self.is_written = true;
            }
        }
        let others = items.iter().filter_map(|item| {
            let name =
                item.key.strip_prefix(PREFIX).filter(|name| living.contains(name) && *name != self.node)?;
            Some((name, serde_json::from_slice::<Values>(&item.value).ok()?))
        });
        let others: Vec<(&str, Values)> = others.collect();
        let text = difference(&self.own, &others).unwrap_or_default();
        let about = format!("{ABOUT}{}", self.node);
        let is_new = self.said.as_ref() != Some(&text);
        if text.is_empty() {
            if is_new {
                alarm::clear(&*self.leases, &about).await?;
            }
        } else {
            if is_new {
                tracing::warn!(node = %self.node, "node {}: {text}", self.node);
            }
            // Each time: a node that did not yet see us as live may have cleared the alarm.
            alarm::raise(&*self.leases, &about, &self.node, &text).await?;
        }
        self.said = Some(text);
        Ok(())
    }
}

/// The difference, in a sentence.
pub(crate) fn difference(own: &Values, others: &[(&str, Values)]) -> Option<String> {
    let differs = own.iter().filter_map(|(name, value)| {
        // Settings that another version does not publish are not compared.
        let (node, other) = others.iter().find_map(|(node, other)| {
            let other = other.get(name).filter(|other| *other != value)?;
            Some((node, other))
        })?;
        Some(format!("{name} is {value} here and {other} on node {node}"))
    });
    let differs: Vec<String> = differs.collect();
    (!differs.is_empty()).then(|| {
        format!(
            "{}. These are limits of the whole cluster: sites are asked by the laxer of them. Set them equally on all nodes",
            differs.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nephila_log::memory::Engine;

    use super::*;

    #[tokio::test]
    async fn ops_05_settings_that_differ_where_they_must_not_are_an_alarm_until_they_agree() {
        let leases: Arc<dyn Leases> = Arc::new(Engine::new(Duration::from_secs(15)).leases());
        let usual = Settings::default();
        let mut lax = Settings::default();
        lax.frontier.slot_delay = Duration::from_millis(1);
        let both = ["one", "two"];
        let (mut one, mut two) =
            (Equal::new(leases.clone(), "one", &usual), Equal::new(leases.clone(), "two", &lax));
        one.look(&both).await.unwrap();
        two.look(&both).await.unwrap();
        one.look(&both).await.unwrap();
        let alarms = alarm::all(&*leases).await.unwrap();
        assert_eq!(alarms.len(), 2, "{alarms:?}");
        assert!(alarms.iter().all(|alarm| alarm.text.contains("frontier.slot_delay is ")), "{alarms:?}");
        // The second is started again with the settings of the first.
        let mut two = Equal::new(leases.clone(), "two", &usual);
        two.look(&both).await.unwrap();
        one.look(&both).await.unwrap();
        assert!(alarm::all(&*leases).await.unwrap().is_empty());
        // Whoever has left is not compared with.
        Equal::new(leases.clone(), "three", &lax).look(&["three"]).await.unwrap();
        one.look(&both).await.unwrap();
        assert!(alarm::all(&*leases).await.unwrap().is_empty());
        one.look(&["one", "three"]).await.unwrap();
        assert_eq!(alarm::all(&*leases).await.unwrap().len(), 1);
        // The alarm of a node that does not come back ends with the next look of another.
        let mut four = Equal::new(leases.clone(), "four", &lax);
        four.look(&["one", "four"]).await.unwrap();
        assert!(alarm::all(&*leases).await.unwrap().iter().any(|alarm| alarm.node == "four"));
        one.look(&both).await.unwrap();
        assert!(alarm::all(&*leases).await.unwrap().is_empty());
    }
}
