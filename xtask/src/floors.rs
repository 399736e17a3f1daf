//! The version floors: reads them from `deny.toml` and compares every locked version with them.
//!
//! The floors stand once, in `deny.toml`, where `cargo deny` reads them too. This second reader looks at the lock
//! files, so packages that are locked but not built are seen as well; no network and no tool is needed, and the check
//! runs as a test.
//!
//! Invariant: an entry that this file cannot read is an error, never a floor that is silently absent.

use anyhow::{Context, Result, ensure};

/// One package that must not be older than a version, or must not be there at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// The package.
    pub(crate) name: String,
    /// Versions below this are refused; `None` refuses all of them.
    pub(crate) least: Option<Version>,
}

/// The `bans.deny` list of a `deny.toml`.
pub(crate) fn parse(deny_toml: &str) -> Result<Vec<Floor>> {
    let config: toml::Table = deny_toml.parse().context("deny.toml is not TOML")?;
    let entries = config
        .get("bans")
        .and_then(|bans| bans.get("deny"))
        .and_then(toml::Value::as_array)
        .context("deny.toml has no list bans.deny")?;
    entries.iter().map(floor).collect()
}

fn floor(entry: &toml::Value) -> Result<Floor> {
    let spec =
        entry.get("crate").and_then(toml::Value::as_str).context("an entry of bans.deny names no crate")?;
    // With `@` cargo-deny 0.20 takes the entry, matches nothing and says "ok".
    ensure!(!spec.contains('@'), "bans.deny: `{spec}` would ban nothing, write it as name:<version");
    let (name, least) = match spec.split_once(':') {
        None => (spec, None),
        Some((name, range)) => {
            let version = range
                .strip_prefix('<')
                .with_context(|| format!("bans.deny: `{spec}` is not a floor, write it as name:<version"))?;
            (name, Some(version_of(version)?))
        }
    };
    Ok(Floor { name: name.to_owned(), least })
}

/// Three numbers, and 1 for a release or 0 for a pre-release, which comes before the release.
pub(crate) type Version = [u64; 4];

fn version_of(text: &str) -> Result<Version> {
    let text = text.trim();
    let (numbers, is_release) = match text.split('+').next().unwrap_or(text).split_once('-') {
        Some((numbers, _)) => (numbers, 0),
        None => (text.split('+').next().unwrap_or(text), 1),
    };
    let mut version = [0, 0, 0, is_release];
    let parts: Vec<&str> = numbers.split('.').collect();
    ensure!(parts.len() <= 3, "`{text}` is not a version");
    for (place, part) in version.iter_mut().zip(parts) {
        *place = part.parse().with_context(|| format!("`{text}` is not a version"))?;
    }
    Ok(version)
}

/// Packages of a `Cargo.lock` below the floors, as sentences.
///
/// Outright bans are left to `cargo deny`: a lock file also lists packages behind features that are turned off.
pub(crate) fn violations(floors: &[Floor], cargo_lock: &str) -> Result<Vec<String>> {
    let lock: toml::Table = cargo_lock.parse().context("the lock file is not TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("the lock file is empty")?;
    let mut found = Vec::new();
    for package in packages {
        let text = |key| package.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        for floor in floors.iter().filter(|floor| floor.name == name) {
            let Some(least) = floor.least else { continue };
            if version_of(version)? < least {
                let [a, b, c, _] = least;
                found.push(format!(
                    "{name} {version} is below the floor {a}.{b}.{c}: run `cargo update {name}`"
                ));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    fn floors() -> Vec<Floor> {
        parse(&std::fs::read_to_string(shell::root().join("deny.toml")).unwrap()).unwrap()
    }

    #[test]
    fn nothing_locked_is_below_its_floor() {
        for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
            let lock = std::fs::read_to_string(shell::root().join(lock)).unwrap();
            assert_eq!(violations(&floors(), &lock).unwrap(), [] as [String; 0]);
        }
    }

    #[test]
    fn a_planted_old_version_is_found_for_every_floor() {
        let floors = floors();
        assert!(floors.iter().filter(|f| f.least.is_some()).count() >= 15, "floors went missing");
        let real = std::fs::read_to_string(shell::root().join("Cargo.lock")).unwrap();
        for floor in floors.iter().filter(|f| f.least.is_some()) {
            let planted = format!("{real}\n[[package]]\nname = \"{}\"\nversion = \"0.0.1\"\n", floor.name);
            assert_eq!(violations(&floors, &planted).unwrap().len(), 1, "{}", floor.name);
        }
    }

    #[test]
    fn the_floor_itself_is_allowed_and_its_pre_release_is_not() {
        let floors = [Floor { name: "h2".to_owned(), least: Some([0, 4, 16, 1]) }];
        for (version, bad) in [
            ("0.4.15", 1),
            ("0.4.16-rc.1", 1),
            ("0.4.16", 0),
            ("0.4.16+build", 0),
            ("1.0.0", 0),
            ("0.10.0", 0),
        ] {
            let lock = format!("[[package]]\nname = \"h2\"\nversion = \"{version}\"\n");
            assert_eq!(violations(&floors, &lock).unwrap().len(), bad, "{version}");
        }
    }

    #[test]
    fn an_entry_that_is_no_floor_is_an_error() {
        for spec in ["h2:>=0.4", "h2:<four", "h2:<1.2.3.4", "h2@<0.4.16"] {
            assert!(parse(&format!("[bans]\ndeny = [{{ crate = \"{spec}\" }}]")).is_err(), "{spec}");
        }
    }
}
