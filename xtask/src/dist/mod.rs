//! `cargo xtask dist`: everything that a release consists of, from one program.
//!
//! The program is built with the profile `dist`, or was built before. From it come the tarball, the packages for Debian and for
//! systems with rpm, the image, the list of parts and the digests, and with a key the signature. All formats are written here: a
//! release needs no tool beside cargo, `ldd` and for the signature `ssh-keygen`.
//!
//! Invariants: the same program and the same commit give the same bytes (`--check` makes everything twice); the only time in an
//! artifact is that of the commit, and no path of this machine is in one.

mod build;
mod deb;
mod layout;
mod linked;
mod made;
mod needs;
mod notices;
mod oci;
mod rpm;
mod sbom;
mod scripts;
mod sign;
mod tar;
mod tree;
pub(crate) mod tried;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::shell;
use layout::Kind;
use needs::Needs;

/// Who answers for a package.
const MAINTAINER: &str = "the Nephila developers";
const LICENSE: &str = "MIT OR Apache-2.0";
const SUMMARY: &str = "polite, robust web crawler that stores responses as standard WARC files";
const DESCRIPTION: &str = "\
One program, on one machine or as a cluster. It obeys robots.txt, gives each host a rest after each
request, and survives crashes and full disks without losing a page.";
/// Maximum size of an artifact.
const BYTES_MAX: usize = 30_000_000;

/// Options of `dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with a program that was built before [default: build it]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Where the artifacts go [default: `dist-artifacts` in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Key of ssh-keygen that signs SHA256SUMS
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Make everything twice and compare; fail above the limits of size
    #[arg(long)]
    check: bool,
}

/// What all artifacts know.
#[derive(Clone, Debug)]
struct About {
    version: String,
    arch: Arch,
    needs: Needs,
    /// Time of the commit, in seconds since 1970.
    time: u64,
}

/// Names of a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arch {
    name: &'static str,
    debian: &'static str,
    rpm_number: u8,
}

/// The processors that we build for.
const ARCHES: [Arch; 2] = [
    Arch { name: "x86_64", debian: "amd64", rpm_number: 1 },
    Arch { name: "aarch64", debian: "arm64", rpm_number: 19 },
];

/// An artifact: its name and its bytes.
type Artifact = (String, Vec<u8>);

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let begun = Instant::now();
    let program = match &args.programs {
        Some(folder) => std::path::absolute(folder)?.join("nephila"),
        None => build::program()?,
    };
    let built = begun.elapsed();
    let artifacts = make(&program, args.programs.is_none())?;
    if args.check {
        check(&artifacts, &make(&program, false)?)?;
    }
    let out = args.out.clone().unwrap_or_else(|| shell::target_dir().join("dist-artifacts"));
    write(&out, &artifacts)?;
    if let Some(key) = &args.sign {
        sign::sign(&out.join(sign::SUMS), key)?;
    }
    for (name, bytes) in &artifacts {
        println!("dist: {:>5.1} MB  {name}", bytes.len() as f64 / 1e6);
    }
    let how = if args.check { ", twice the same" } else { "" };
    println!(
        "dist: {} artifacts in {}{how}; program {:.0} s, artifacts {:.0} s",
        artifacts.len(),
        out.display(),
        built.as_secs_f64(),
        (begun.elapsed() - built).as_secs_f64(),
    );
    Ok(())
}

/// Makes all artifacts of a program. One that we have built has no path of this machine in it.
fn make(program: &Path, is_ours: bool) -> Result<Vec<Artifact>> {
    let bytes = std::fs::read(program).with_context(|| program.display().to_string())?;
    let paths = build::paths(&bytes);
    ensure!(paths.is_empty() || !is_ours, "the program names paths of this machine: {}", paths.join(", "));
    if !paths.is_empty() {
        println!(
            "dist: {} names paths of the machine that built it: {}",
            program.display(),
            paths.join(", ")
        );
    }
    let arch = ARCHES
        .into_iter()
        .find(|arch| arch.name == std::env::consts::ARCH)
        .context("an unknown processor")?;
    let crates = linked::crates(&format!("{}-unknown-linux-gnu", arch.name))?;
    let version =
        crates.iter().find(|part| part.name == "nephila").context("nephila is a crate")?.version.clone();
    let about = About { version, arch, needs: Needs::of(program, &bytes)?, time: build::time()? };
    let made = made::files(program)?;
    let notices = notices::text(&crates)?;
    let licences = layout::licences(&notices)?;
    let files = |kind| layout::package(kind, &bytes, &made, &licences);
    let folder = format!("nephila-{}-{}-linux", about.version, arch.name);
    let tarball = layout::tarball(&folder, &bytes, &made, &licences)?;
    let root = oci::root(&about, &bytes, &licences)?;
    let mut artifacts = vec![
        (format!("{folder}.tar.gz"), tar::gzip(&tar::tar(&tarball, "", about.time)?)?),
        (deb::name(&about), deb::package(&about, &files(Kind::Deb)?)?),
        (rpm::name(&about), rpm::package(&about, &files(Kind::Rpm)?)?),
        (oci::name(&about), oci::image(&about, &root)?),
        (sbom::name(&about), sbom::list(&about, &crates)?),
        ("THIRD-PARTY".to_owned(), notices.into_bytes()),
    ];
    artifacts.push(sign::sums(&artifacts));
    Ok(artifacts)
}

/// Fails if artifacts differ from those made before, or are too large.
fn check(first: &[Artifact], second: &[Artifact]) -> Result<()> {
    ensure!(first.len() == second.len(), "not the same artifacts twice");
    for ((name, bytes), (_, again)) in first.iter().zip(second) {
        ensure!(bytes == again, "{name} is not the same twice");
        let size = bytes.len();
        ensure!(size <= BYTES_MAX, "{name} has {size} bytes, more than {BYTES_MAX}");
    }
    Ok(())
}

/// Writes the artifacts into a folder, which is made.
fn write(out: &Path, artifacts: &[Artifact]) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, bytes) in artifacts {
        std::fs::write(out.join(name), bytes).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

/// The digest in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time as CycloneDX writes it: `2023-11-14T22:13:20Z`. By the civil calendar, counted from March.
fn utc(time: u64) -> String {
    let (days, seconds) = (time / 86_400, time % 86_400);
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::linked::Linked;
    use super::*;

    pub(super) fn about() -> About {
        About {
            version: "0.1.0".into(),
            arch: ARCHES[0],
            needs: Needs { glibc: Some("2.34".into()), libraries: Vec::new() },
            time: 1_700_000_000,
        }
    }

    pub(super) fn linked(name: &str) -> Linked {
        Linked {
            name: name.into(),
            version: "0.1.0".into(),
            license: "MIT OR Apache-2.0".into(),
            authors: Vec::new(),
            repository: String::new(),
            sha256: Some("0".repeat(64)),
            folder: PathBuf::new(),
            needs: Default::default(),
        }
    }

    #[test]
    fn times_are_written_in_the_civil_calendar() {
        for (time, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(time), text);
        }
    }

    #[test]
    fn artifacts_that_differ_or_are_large_are_named() {
        let artifact = |bytes: usize, byte| vec![("x.deb".to_owned(), vec![byte; bytes])];
        check(&artifact(9, 1), &artifact(9, 1)).unwrap();
        assert!(check(&artifact(9, 1), &artifact(9, 2)).unwrap_err().to_string().contains("x.deb"));
        assert!(check(&artifact(BYTES_MAX + 1, 1), &artifact(BYTES_MAX + 1, 1)).is_err());
    }
}
