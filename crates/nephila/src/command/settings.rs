//! `nephila settings`: the settings with their comments, as a file.

use crate::cli::{Common, SettingsArgs};
use nephila_engine::exit::Exit;
use nephila_engine::settings::{Settings, page};

/// `nephila settings`.
pub(crate) fn run(args: &SettingsArgs) -> anyhow::Result<Exit> {
    let Common { config, set } = &args.common;
    let settings = match args.effective || config.is_some() {
        true => args.common.load()?,
        // The defaults, and the options given here: an unknown key is an error even when only shown.
        false if !set.is_empty() => Common { config: Some("/dev/null".into()), set: set.clone() }.load()?,
        false => Settings::default(),
    };
    print!("{}", page(&settings)?);
    Ok(Exit::Done)
}
