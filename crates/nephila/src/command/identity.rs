//! `nephila identity`: the key that requests are signed with, its directory, and the page about the crawler.

use nephila_core::identity::directory;
use nephila_core::identity::page::{self, About};

use crate::cli::identity::{DirectoryArgs, IdentityCommand, KeyArgs, PageArgs};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::identity::{self, read};
use nephila_engine::settings::usage;

/// Maximum number of keys in one directory.
const KEYS_MAX: usize = 16;

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
        None => args.common.load()?.identity.key_file,
    };
    if file.as_os_str().is_empty() {
        return Err(usage(anyhow::anyhow!("name the file to make, or set identity.key_file")));
    }
    println!("{}", identity::make(&file)?.id());
    Ok(Exit::Done)
}

fn print_directory(args: &DirectoryArgs) -> anyhow::Result<Exit> {
    let identity = args.common.load()?.identity;
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
    let settings = args.common.load()?;
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
