//! How the tools of others are found and installed.
//!
//! System packages are left to the user. What comes from a language's own registry lies in the cache folder, of one
//! version: an environment of Python, modules of Node, and two programs of ours, each around a library of others.
//! Invariant: a program of ours that was built from other files than the present ones, or not to its end, is built again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::tools::Tool;
use crate::{interop, shell};

const SCRAPY: &[&str] = &["scrapy==2.19.0"];
const CRAWLEE: &str = "@crawlee/cheerio@3.18.1";
/// Timeout of a build; the program with the `spider` crate has 400 dependencies.
const BUILD_MAX: Duration = Duration::from_secs(30 * 60);
/// Timeout of a question for a version.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Beside a program that was built: the files it was built from.
const STAMP: &str = "built-from.txt";

/// The program around the `spider` crate. Its manifest has another name there, so that nothing of it ever stands in our
/// own lock file.
pub(super) const SPIDER: Wrapper = Wrapper {
    name: "spider",
    files: [("manifest.toml", "Cargo.toml"), ("main.rs", "src/main.rs")],
    program: "target/release/peer-spider",
    library: "spider = ",
};

/// The program around colly.
pub(super) const COLLY: Wrapper = Wrapper {
    name: "colly",
    files: [("go.mod", "go.mod"), ("main.go", "main.go")],
    program: "peer-colly",
    library: "require github.com/gocolly/colly/v2 ",
};

/// A program of ours around a library of others: its manifest and its source under `xtask/peers`, and their names in its
/// folder in the cache.
pub(super) struct Wrapper {
    name: &'static str,
    files: [(&'static str, &'static str); 2],
    program: &'static str,
    /// Begin of the manifest's line with the version of the library.
    library: &'static str,
}

impl Wrapper {
    pub(super) fn program(&self, cache: &Path) -> PathBuf {
        self.folder(cache).join(self.program)
    }

    fn folder(&self, cache: &Path) -> PathBuf {
        cache.join(self.name)
    }

    /// The present files, one after the other.
    fn sources(&self) -> Result<[String; 2]> {
        let folder = shell::root().join("xtask/peers").join(self.name);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
        Ok([read(self.files[0].0)?, read(self.files[1].0)?])
    }

    fn is_built(&self, cache: &Path) -> bool {
        let stamp = std::fs::read_to_string(self.folder(cache).join(STAMP)).unwrap_or_default();
        self.program(cache).exists() && self.sources().is_ok_and(|sources| sources.concat() == stamp)
    }

    /// Builds it in its folder.
    fn build(&self, cache: &Path, build: &mut Command) -> Result<()> {
        let (folder, sources) = (self.folder(cache), self.sources()?);
        eprintln!("building the program around {} in {}, once", self.name, folder.display());
        for ((_, to), text) in self.files.iter().zip(&sources) {
            let path = folder.join(to);
            std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        shell::run(build.current_dir(&folder), BUILD_MAX)?;
        Ok(std::fs::write(folder.join(STAMP), sources.concat())?)
    }

    /// The version of the library.
    fn version(&self) -> Option<String> {
        let [manifest, _] = self.sources().ok()?;
        let version = manifest.lines().find_map(|line| line.strip_prefix(self.library))?;
        Some(format!("{} {}", self.name, version.trim_matches(['"', '=', 'v'])))
    }
}

impl Tool {
    /// The command that installs the tool.
    pub(super) fn how_to_install(self) -> String {
        let by_itself = |first: &str| {
            format!("apt-get install {first}, then `cargo xtask bench peers --tools {}`", self.name())
        };
        match self {
            Tool::Nephila | Tool::NephilaZstd | Tool::BareLoop => "cargo build --release".to_owned(),
            Tool::Wget2 => "apt-get install wget2".to_owned(),
            Tool::WgetWarc => "apt-get install wget".to_owned(),
            Tool::Httrack => "apt-get install httrack".to_owned(),
            Tool::Scrapy => by_itself("python3-venv"),
            Tool::Crawlee => by_itself("nodejs npm"),
            Tool::Spider => "`cargo xtask bench peers --tools spider`, which builds it once".to_owned(),
            Tool::Colly => by_itself("golang-go"),
        }
    }

    /// Installs a tool from a language's own registry; system packages are left to the user.
    pub(super) fn install(self, cache: &Path) -> Result<()> {
        match self {
            Tool::Scrapy => interop::environment(&cache.join("scrapy"), SCRAPY).map(drop),
            Tool::Crawlee if !self.is_here(cache) => {
                let folder = cache.join("crawlee");
                std::fs::create_dir_all(&folder)?;
                eprintln!("installing {CRAWLEE} into {}", folder.display());
                let installed = Command::new("npm")
                    .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
                    .args([folder.as_os_str(), CRAWLEE.as_ref()])
                    .stdout(Stdio::null())
                    .status();
                ensure!(installed.context("npm is needed")?.success(), "npm could not install {CRAWLEE}");
                Ok(())
            }
            Tool::Spider if !self.is_here(cache) => {
                let mut build = shell::cargo(&["build", "--release", "--quiet", "--target-dir", "target"]);
                // Flags meant for our own build are not meant for this one.
                build.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
                SPIDER.build(cache, &mut build)
            }
            Tool::Colly if !self.is_here(cache) => COLLY.build(cache, &mut go_build()),
            _ => Ok(()),
        }
    }

    /// Whether the tool is installed.
    pub(super) fn is_here(self, cache: &Path) -> bool {
        let answers = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok()
        };
        match self {
            Tool::Nephila | Tool::NephilaZstd | Tool::BareLoop => true,
            Tool::Wget2 => answers("wget2".as_ref()),
            Tool::WgetWarc => answers("wget".as_ref()),
            Tool::Httrack => answers("httrack".as_ref()),
            Tool::Scrapy => cache.join("scrapy/bin/scrapy").exists() && answers(&python(cache)),
            Tool::Crawlee => {
                modules(cache).join("@crawlee/cheerio/package.json").exists() && answers("node".as_ref())
            }
            Tool::Spider => SPIDER.is_built(cache),
            Tool::Colly => COLLY.is_built(cache),
        }
    }

    /// Name and version, for the report.
    pub(super) fn version(self) -> Option<String> {
        let of = |program: &str| {
            let said = shell::output(Command::new(program).arg("--version"), VERSION_MAX).ok()?;
            Some(said.lines().next()?.trim().to_owned())
        };
        match self {
            Tool::Nephila | Tool::NephilaZstd | Tool::BareLoop => Some("this commit".to_owned()),
            Tool::Wget2 => of("wget2"),
            Tool::WgetWarc => of("wget"),
            Tool::Httrack => of("httrack"),
            Tool::Scrapy => SCRAPY.first().map(|pinned| pinned.replace("==", " ")),
            Tool::Crawlee => CRAWLEE.rsplit_once('@').map(|(name, version)| format!("{name} {version}")),
            Tool::Spider => SPIDER.version(),
            Tool::Colly => COLLY.version(),
        }
    }
}

/// Go fetches the modules that the program names, unless its own variables say that they are elsewhere, as with
/// `GO111MODULE=off` and a `GOPATH`.
fn go_build() -> Command {
    let mut build = Command::new("go");
    build.args(["build", "-o", COLLY.program, "."]);
    if std::env::var_os("GOFLAGS").or_else(|| std::env::var_os("GO111MODULE")).is_none() {
        // The file of checksums is made here, and checked against Go's public database.
        build.env("GOFLAGS", "-mod=mod");
    }
    build
}

pub(super) fn python(cache: &Path) -> PathBuf {
    cache.join("scrapy/bin/python")
}

pub(super) fn modules(cache: &Path) -> PathBuf {
    cache.join("crawlee/node_modules")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_built_again_when_its_files_change() {
        let cache = tempfile::tempdir().unwrap();
        assert!(!COLLY.is_built(cache.path()));
        // A build that changes its manifest, as Go does.
        let mut build = Command::new("sh");
        build.args(["-c", "echo more >>go.mod; test -f main.go && touch peer-colly"]);
        COLLY.build(cache.path(), &mut build).unwrap();
        assert!(COLLY.is_built(cache.path()));
        std::fs::write(COLLY.folder(cache.path()).join(STAMP), "of an older program").unwrap();
        assert!(!COLLY.is_built(cache.path()));
    }

    #[test]
    fn the_manifests_name_the_versions() {
        assert_eq!(SPIDER.version().unwrap(), "spider 2.53.2");
        assert!(COLLY.version().unwrap().starts_with("colly 2."));
        assert_eq!(Tool::Crawlee.version().unwrap(), "@crawlee/cheerio 3.18.1");
    }
}
