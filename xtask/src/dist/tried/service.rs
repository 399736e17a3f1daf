//! Trials of the unit: by the word of systemd-analyze, and by systemd itself, which starts it in a Debian that was booted for it.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{QUICK, Root, Trial, as_strs, pages};
use crate::shell;

/// The highest exposure that systemd-analyze may say, of 10.
const EXPOSURE_MAX: f64 = 2.5;
/// Timeout of systemd-analyze.
const ANALYZE_LIMIT: Duration = Duration::from_secs(60);
/// Timeout from the boot to the power-off.
const BOOT_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Packages with which a root can boot.
const SYSTEMD: [&str; 3] = ["systemd", "systemd-sysv", "dbus"];
/// Runs a crawl for a moment, and then stops it as by Ctrl-C.
const INTERRUPTED: &str = "timeout --preserve-status --signal=INT 3 \"$@\" || [ $? = 11 ]";
/// The service of the trial, and its folder.
const UNIT: &str = "nephila@trial";
const FOLDER: &str = "/var/lib/nephila/trial";

/// The trial, run once the system is up, and then the power-off. What it says is kept in a file.
const SCRIPT: &str = "\
exec >/data/said 2>&1
systemctl start nephila@trial || systemctl status --no-pager nephila@trial
systemctl show -p ActiveState -p NotifyAccess -p WatchdogUSec -p NRestarts nephila@trial
for i in $(seq 60); do
    sleep 1
    nephila report summary -o /var/lib/nephila/trial >/data/summary 2>&1
    [ \"$(cut -d' ' -f1 /data/summary | head -n1)\" = \"$(cat /data/wanted)\" ] && break
done
pid=$(systemctl show -p MainPID --value nephila@trial)
grep -E '^(NoNewPrivs|Seccomp|CapEff|Uid):' /proc/$pid/status
kill -KILL $pid
for i in $(seq 30); do sleep 1; [ \"$(systemctl show -p NRestarts --value nephila@trial)\" = 1 ] && systemctl is-active -q nephila@trial && break; done
systemctl show -p ActiveState -p NRestarts nephila@trial | sed s/^/after-kill-/
systemctl stop nephila@trial
systemctl show -p ActiveState -p Result nephila@trial | sed s/^/stopped-/
journalctl --no-pager -u nephila@trial | tail -n 40
nephila verify /var/lib/nephila/trial && echo verified
";

/// Runs [`SCRIPT`] after the boot.
const RUNNER: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /data/script
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

/// Installs the package in a Debian with systemd, begins a crawl, boots, and lets the service go on with it; then kills the process, and
/// stops the service.
pub(super) fn service(trial: &Trial<'_>) -> Result<String> {
    let root = Root::debian(&trial.cache, &SYSTEMD)?;
    trial.bring_ca(&root)?;
    let at = |path: &str| root.path().join(path.trim_start_matches('/'));
    std::fs::copy(trial.artifact(".deb")?, at("/data/package")).context("copy the package")?;
    root.run(&["dpkg", "--install", "/data/package"])?;
    let all = begin(trial, &root)?;
    std::fs::write(at("/data/wanted"), all.to_string())?;
    std::fs::write(at("/data/script"), SCRIPT)?;
    std::fs::write(at("/etc/systemd/system/trial.service"), RUNNER)?;
    root.run(&["systemctl", "enable", "trial.service"])?;
    boot(&root)?;
    let said = std::fs::read_to_string(at("/data/said")).context("the system did not run the trial")?;
    for wanted in [
        "ActiveState=active",
        "NRestarts=0",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "CapEff:\t0000000000000000",
        "after-kill-NRestarts=1",
        "after-kill-ActiveState=active",
        "stopped-ActiveState=inactive",
        "stopped-Result=success",
        "verified",
    ] {
        ensure!(
            said.lines().any(|line| line.ends_with(wanted)),
            "no {wanted} in what the system said:\n{said}"
        );
    }
    let pages = pages(&std::fs::read_to_string(at("/data/summary"))?).with_context(|| said.clone())?;
    ensure!(pages >= all, "the service crawled {pages} of {all} pages; the system said:\n{said}");
    Ok(format!("{UNIT} ready, {pages} pages crawled in its sandbox, killed and restarted, stopped cleanly"))
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
    let words = trial.crawl("nephila", FOLDER, "1s")?;
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

/// Settings of the command line as a file.
fn written(settings: &[String]) -> String {
    let line = |set: &String| {
        let (key, value) = set.split_once('=').unwrap_or((set, ""));
        let value = if value.starts_with('[') { value.to_owned() } else { format!("{value:?}") };
        format!("{key} = {value}\n")
    };
    settings.iter().map(line).collect::<String>() + "frontier.host_delay = \"10ms\"\n"
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
    fn settings_of_the_command_line_are_a_file() {
        let settings = ["spider.ca_file=/ca.pem", "spider.ports=[1, 2]"].map(String::from);
        let table: toml::Table = written(&settings).parse().unwrap();
        assert_eq!(table["spider"]["ca_file"].as_str(), Some("/ca.pem"));
        assert_eq!(table["spider"]["ports"].as_array().unwrap().len(), 2);
    }
}
