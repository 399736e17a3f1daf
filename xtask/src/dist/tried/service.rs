//! Trials of the unit: by the word of systemd-analyze, and by systemd itself, which starts it in a Debian that was booted for it.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nephila_testnats::Nats;

use super::{CA, QUICK, Root, Trial, as_strs, pages};
use crate::shell;
use crate::watched::Answering;

/// The highest exposure that systemd-analyze may say, of 10.
const EXPOSURE_MAX: f64 = 2.5;
/// Timeout of systemd-analyze.
const ANALYZE_LIMIT: Duration = Duration::from_secs(60);
/// Timeout from the boot to the power-off. A watchdog as shipped takes two minutes of it.
const BOOT_LIMIT: Duration = Duration::from_secs(12 * 60);
/// Packages with which a root can boot.
const SYSTEMD: [&str; 3] = ["systemd", "systemd-sysv", "dbus"];
/// Runs a crawl for a moment, and then stops it as by Ctrl-C.
const INTERRUPTED: &str = "timeout --preserve-status --signal=INT 3 \"$@\" || [ $? = 11 ]";
/// The crawl delay of the services: so short that the trial ends soon, and so long that they are frozen in the middle.
const DELAY: &str = "1s";
/// The services of the trial: a crawl, a node of a cluster, and a spider that fetches for the node.
const UNITS: [&str; 3] = ["nephila@trial", "nephila-node", "nephila-spider"];
/// The folder of the crawl.
const FOLDER: &str = "/var/lib/nephila/trial";

/// The trial, run once the system is up, and then the power-off. `$1` is the number of pages, `$2` the node, `$3` the seed. What it says
/// is kept in a file: of each unit after each step, a line for each property.
const SCRIPT: &str = "\
wanted=$1 node=$2 seed=$3
units='nephila@trial nephila-node nephila-spider'
of() { systemctl show -p $1 --value $2; }
are_up() { for u in $units; do systemctl is-active -q $u && [ \"$(of NRestarts $u)\" = $1 ] || return 1; done; }
await_up() { for i in $(seq $2); do are_up $1 && return; sleep 1; done; }
signal() { for u in $units; do kill -$1 $(of MainPID $u); done; }
say() { for u in $units; do systemctl show -p ActiveState -p NRestarts -p Result $u | sed \"s/^/$1 $u /\"; done; }
pages() { nephila report summary -o /var/lib/nephila/$1 2>/dev/null | sed -n '1s/ pages from .*//p'; }
await_pages() { for i in $(seq $3); do [ \"$(pages $1)\" -ge $2 ] 2>/dev/null && return; sleep 1; done; }
systemctl start nephila-node nephila-spider || systemctl status --no-pager nephila-node nephila-spider
nephila job create all $seed --scope any --node $node
await_pages node 1 60
systemctl start nephila@trial || systemctl status --no-pager nephila@trial
say started
for u in $units; do grep -E '^(NoNewPrivs|Seccomp|CapEff|Uid):' /proc/$(of MainPID $u)/status | sed \"s/^/$u /\"; done
sleep 3
signal STOP
echo frozen at $(pages trial) and $(pages node) of $wanted pages
await_up 1 200
say frozen
await_pages trial $wanted 150
await_pages node $wanted 150
echo then $(pages trial) and $(pages node) pages
nephila cluster spiders --node $node
signal KILL
await_up 2 60
say killed
systemctl stop $units
say stopped
for u in $units; do journalctl --no-pager -u $u | grep -F 'Watchdog timeout'; journalctl --no-pager -u $u | tail -n 20; done
for f in trial node; do nephila verify /var/lib/nephila/$f && echo verified $f; done
";

/// Runs [`SCRIPT`] after the boot.
const RUNNER: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /data/started
ExecStopPost=/usr/bin/systemctl --force poweroff
[Install]
WantedBy=multi-user.target
";

/// The exposure of each unit.
pub(super) fn sandbox(_: &Trial<'_>) -> Result<String> {
    let mut said = Vec::new();
    for unit in ["nephila@.service", "nephila-node.service", "nephila-spider.service"] {
        let path = shell::root().join("deploy/systemd").join(unit);
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--no-pager"]).arg(path);
        let exposure = exposure(&shell::output(&mut analyze, ANALYZE_LIMIT)?)?;
        ensure!(exposure <= EXPOSURE_MAX, "{unit} has an exposure of {exposure}, above {EXPOSURE_MAX}");
        said.push(format!("{unit} {exposure}"));
    }
    Ok(format!("exposure of {}", said.join(", ")))
}

fn exposure(analysis: &str) -> Result<f64> {
    let line = analysis.lines().find_map(|line| line.split_once("Overall exposure level for "));
    let level = line.and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    level.context("systemd-analyze says no exposure")
}

/// Installs the package in a Debian with systemd, and boots it: a crawl that was begun before, a node and its spider run as services, are
/// frozen in the middle until their watchdogs end them, come back, finish, are killed, come back, and are stopped.
pub(super) fn service(trial: &Trial<'_>) -> Result<String> {
    let root = Root::debian(&trial.cache, &SYSTEMD)?;
    trial.bring_ca(&root)?;
    let at = |path: &str| root.path().join(path.trim_start_matches('/'));
    std::fs::copy(trial.artifact(".deb")?, at("/data/package")).context("copy the package")?;
    root.run(&["dpkg", "--install", "/data/package"])?;
    let all = begin(trial, &root)?;
    let nats = Nats::one()?;
    let node = configure(trial, &root, &nats)?;
    std::fs::write(at("/data/script"), SCRIPT)?;
    let home = trial.web.home()?;
    let started = format!("exec sh /data/script {all} http://{node} {home} >/data/said 2>&1\n");
    std::fs::write(at("/data/started"), started)?;
    std::fs::write(at("/etc/systemd/system/trial.service"), RUNNER)?;
    root.run(&["systemctl", "enable", "trial.service"])?;
    boot(&root)?;
    let said = std::fs::read_to_string(at("/data/said")).context("the system did not run the trial")?;
    let (before, after) = judge(&said, all).with_context(|| said.clone())?;
    Ok(format!(
        "{} in their sandboxes, frozen at {before} pages of {all}, ended by their watchdogs and restarted, {after} pages in the end, \
         killed and restarted, stopped cleanly",
        UNITS.join(", ")
    ))
}

/// Whether everything was seen that is wanted. The pages of the crawl and of the node when they were frozen, and in the end.
fn judge(said: &str, all: u64) -> Result<(String, String)> {
    let has = |wanted: &str| said.lines().any(|line| line == wanted);
    let states = [
        ("started", "ActiveState=active", "NRestarts=0"),
        ("frozen", "ActiveState=active", "NRestarts=1"),
        ("killed", "ActiveState=active", "NRestarts=2"),
        ("stopped", "ActiveState=inactive", "Result=success"),
    ];
    for unit in UNITS {
        for (step, state, count) in states {
            for wanted in [state, count] {
                ensure!(has(&format!("{step} {unit} {wanted}")), "no {wanted} of {unit} when {step}");
            }
        }
        for wanted in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"] {
            ensure!(has(&format!("{unit} {wanted}")), "no {wanted} of {unit}");
        }
        let is_by_watchdog = |line: &str| line.contains(unit) && line.contains("Watchdog timeout");
        ensure!(said.lines().any(is_by_watchdog), "no watchdog ended {unit}");
    }
    for folder in ["trial", "node"] {
        ensure!(has(&format!("verified {folder}")), "the archive of {folder} is not verified");
    }
    let two = |begin: &str, end: &str| -> Result<[u64; 2]> {
        let line = said.lines().find_map(|line| line.strip_prefix(begin)?.strip_suffix(end));
        let (first, second) =
            line.and_then(|line| line.split_once(" and ")).context("no numbers of pages")?;
        Ok([first.parse()?, second.parse()?])
    };
    let before = two("frozen at ", &format!(" of {all} pages"))?;
    ensure!(before.iter().all(|pages| (1..all).contains(pages)), "frozen at {before:?}: not in the middle");
    let after = two("then ", " pages")?;
    ensure!(after.iter().all(|pages| *pages >= all), "only {after:?} of {all} pages in the end");
    let shown = |two: [u64; 2]| format!("{} and {}", two[0], two[1]);
    Ok((shown(before), shown(after)))
}

/// Crawls all pages once, to know their number, and then begins it in the folder of the service, as its user. Returns the number.
fn begin(trial: &Trial<'_>, root: &Root) -> Result<u64> {
    root.run(&as_strs(&trial.crawl("nephila", "/data/all", QUICK)?))?;
    let all = pages(&root.run(&["nephila", "report", "summary", "-o", "/data/all"])?)?;
    root.run(&["install", "-d", "-o", "nephila", "-g", "nephila", "-m", "0750", FOLDER])?;
    let settings = root.path().join(FOLDER.trim_start_matches('/')).join("nephila.toml");
    std::fs::write(&settings, written(&trial.settings()?))?;
    root.run(&["chmod", "0644", &format!("{FOLDER}/nephila.toml")])?;
    root.run(&["chmod", "0755", "/data"])?;
    let words = trial.crawl("nephila", FOLDER, DELAY)?;
    let mut begun = vec![
        "setpriv",
        "--reuid=nephila",
        "--regid=nephila",
        "--clear-groups",
        "sh",
        "-c",
        INTERRUPTED,
        "sh",
    ];
    begun.extend(as_strs(&words));
    root.run(&begun)?;
    Ok(all)
}

/// Writes the settings of the node and of the spider. Returns the address of the node's API.
fn configure(trial: &Trial<'_>, root: &Root, nats: &Nats) -> Result<SocketAddr> {
    let (api, spiders) = (Answering::free_address()?, Answering::free_address()?);
    let mut settings = trial.settings()?;
    settings.push(format!("cluster.servers=[\"{}\"]", nats.urls()[0]));
    settings.push("cluster.replicas=1".to_owned());
    settings.push(format!("api.listen={api}"));
    settings.push(format!("spiders.listen={spiders}"));
    let folder = root.path().join("etc/nephila");
    let arguments = format!("ARGUMENTS=--node {spiders} --site-ca {CA}\n");
    for (name, text) in [("node.toml", written(&settings)), ("spider.conf", arguments)] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o644))?;
    }
    Ok(api)
}

/// Settings of the command line as a file.
fn written(settings: &[String]) -> String {
    let line = |set: &String| {
        let (key, value) = set.split_once('=').unwrap_or((set, ""));
        let is_bare = value.starts_with('[') || value.parse::<u64>().is_ok();
        let value = if is_bare { value.to_owned() } else { format!("{value:?}") };
        format!("{key} = {value}\n")
    };
    settings.iter().map(line).collect::<String>() + &format!("frontier.host_delay = \"{DELAY}\"\n")
}

/// Boots a root until it powers off. The network is the machine's.
fn boot(root: &Root) -> Result<()> {
    let mut nspawn = Command::new("systemd-nspawn");
    nspawn
        .args(["--quiet", "--register=no", "--keep-unit", "--boot", "--console=pipe", "--directory"])
        .arg(root.path());
    let (_, said) = shell::quiet(&mut nspawn, BOOT_LIMIT)?;
    std::fs::write(root.path().join("data/booted"), said).context("keep what the boot said")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exposure_of_a_unit_is_read() {
        let said = "✗ PrivateNetwork= 0.5\n\n→ Overall exposure level for nephila@i.service: 1.4 OK 🙂\n";
        assert_eq!(exposure(said).unwrap(), 1.4);
        assert!(exposure("no such file").is_err());
    }

    #[test]
    fn what_the_system_said_is_judged() {
        let mut said = String::from(
            "frozen at 7 and 1 of 40 pages\nthen 40 and 41 pages\nverified trial\nverified node\n",
        );
        for unit in UNITS {
            for (step, count) in [("started", 0), ("frozen", 1), ("killed", 2)] {
                said += &format!("{step} {unit} ActiveState=active\n{step} {unit} NRestarts={count}\n");
            }
            said += &format!("stopped {unit} ActiveState=inactive\nstopped {unit} Result=success\n");
            said += &format!("{unit} NoNewPrivs:\t1\n{unit} Seccomp:\t2\n{unit} CapEff:\t0000000000000000\n");
            said += &format!("systemd[1]: {unit}.service: Watchdog timeout (limit 2min)!\n");
        }
        assert_eq!(judge(&said, 40).unwrap(), ("7 and 1".to_owned(), "40 and 41".to_owned()));
        assert!(
            judge(&said.replace("of 40", "of 7").replace("then 40", "then 7"), 7).is_err(),
            "it was finished"
        );
        for line in said.lines() {
            let without = said.replace(&format!("{line}\n"), "");
            assert!(judge(&without, 40).is_err(), "without {line}");
        }
    }

    #[test]
    fn settings_of_the_command_line_are_a_file() {
        let settings = ["spider.ca_file=/ca.pem", "spider.ports=[1, 2]"].map(String::from);
        let table: toml::Table = written(&settings).parse().unwrap();
        assert_eq!(table["spider"]["ca_file"].as_str(), Some("/ca.pem"));
        assert_eq!(table["spider"]["ports"].as_array().unwrap().len(), 2);
    }
}
