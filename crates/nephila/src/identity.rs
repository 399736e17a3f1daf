//! `nephila identity`, and the key that a crawl signs with.
//!
//! What always holds: a key is written once, into a file that only its owner can read; one that others can read is refused.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context;
use nephila_core::identity::directory;
use nephila_core::identity::page::{self, About};
use nephila_spider::sign::{Key, Signed, Signer};

use crate::cli::identity::{DirectoryArgs, IdentityCommand, KeyArgs, PageArgs};
use crate::clock::Clock;
use crate::exit::Exit;
use crate::settings::{self, Identity, Sign, usage};

/// A key file is not longer than this.
const KEY_BYTES_MAX: u64 = 16 * 1024;
/// Keys in one directory.
const KEYS_MAX: usize = 16;

/// What signs the requests of these settings, if anything does.
pub(crate) fn signer(identity: &Identity) -> anyhow::Result<Option<Signer>> {
    if identity.key_file.as_os_str().is_empty() {
        return Ok(None);
    }
    let key = read(&identity.key_file).map_err(usage)?;
    let signed = match identity.sign {
        Sign::Https => Signed::Https,
        Sign::Always => Signed::Always,
        Sign::Asked => Signed::Asked,
    };
    Ok(Some(Signer::new(key, identity.agent_url.clone(), signed, identity.signature_valid)))
}

/// `nephila identity`.
pub(crate) fn run(command: &IdentityCommand) -> anyhow::Result<Exit> {
    match command {
        IdentityCommand::Key(args) => make(args),
        IdentityCommand::Directory(args) => print_directory(args),
        IdentityCommand::Page(args) => print_page(args),
    }
}

fn make(args: &KeyArgs) -> anyhow::Result<Exit> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => settings::load(&args.common)?.identity.key_file,
    };
    if file.as_os_str().is_empty() {
        return Err(usage(anyhow::anyhow!("name the file to make, or set identity.key_file")));
    }
    let text = Key::generate()?;
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .with_context(|| format!("making {}", file.display()))?;
    out.write_all(text.as_bytes())
        .and_then(|()| out.sync_all())
        .with_context(|| file.display().to_string())?;
    println!("{}", Key::from_pem(text.as_bytes())?.id());
    Ok(Exit::Done)
}

fn print_directory(args: &DirectoryArgs) -> anyhow::Result<Exit> {
    let identity = settings::load(&args.common)?.identity;
    if identity.key_file.as_os_str().is_empty() {
        return Err(usage(anyhow::anyhow!(
            "there is no key: make one with `nephila identity key`, set identity.key_file"
        )));
    }
    let key = read(&identity.key_file).map_err(usage)?;
    if args.fields {
        let authority = identity.agent_url.trim_start_matches("https://").to_ascii_lowercase();
        let now = Clock::new().now().wall.0 / 1_000;
        let fields = directory::fields(&authority, &key.id(), now, now + args.valid.as_secs(), |bytes| {
            key.sign(bytes)
        });
        for (name, value) in fields {
            println!("{name}: {value}");
        }
        return Ok(Exit::Done);
    }
    let mut directory = key.directory();
    for file in args.also.iter().take(KEYS_MAX) {
        directory.keys.extend(read(file).map_err(usage)?.directory().keys);
    }
    println!("{}", serde_json::to_string_pretty(&directory)?);
    Ok(Exit::Done)
}

fn print_page(args: &PageArgs) -> anyhow::Result<Exit> {
    let settings = settings::load(&args.common)?;
    let identity = &settings.identity;
    if identity.contact.is_empty() {
        return Err(usage(anyhow::anyhow!(
            "a page about the crawler says how to reach you: set identity.contact"
        )));
    }
    let keyid = match identity.key_file.as_os_str().is_empty() {
        true => String::new(),
        false => read(&identity.key_file).map_err(usage)?.id(),
    };
    let about = About {
        agent: identity.agent.clone(),
        user_agent: identity.user_agent(),
        contact: identity.contact.clone(),
        from: identity.from.clone(),
        purpose: args.purpose.clone(),
        agent_url: identity.agent_url.clone(),
        keyid,
        delay: settings.frontier.host_delay,
        connections: settings.frontier.host_connections,
        obeys_robots: settings.robots.obey,
        ranges: args.ranges.iter().map(ToString::to_string).collect(),
    };
    println!("{}", page::html(&about));
    Ok(Exit::Done)
}

/// The key in a file that only its owner can read.
fn read(path: &Path) -> anyhow::Result<Key> {
    let what = || format!("identity.key_file {}", path.display());
    let file = std::fs::File::open(path).with_context(what)?;
    let mode = file.metadata().with_context(what)?.permissions().mode();
    anyhow::ensure!(mode & 0o077 == 0, "{} can be read by others: chmod 600 it", what());
    let mut text = Vec::new();
    file.take(KEY_BYTES_MAX).read_to_end(&mut text).with_context(what)?;
    Key::from_pem(&text).with_context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        let args = KeyArgs { file: Some(file.clone()), common: Default::default() };
        make(&args).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let id = read(&file).unwrap().id();
        assert!(make(&args).is_err(), "it is there already");
        assert_eq!(read(&file).unwrap().id(), id);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(format!("{:#}", read(&file).unwrap_err()).contains("chmod 600"));
    }
}
