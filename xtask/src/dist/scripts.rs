//! What packages do beside unpacking: the user, its folders, and running services. Each script may run twice.

/// Makes the user and the folders. With systemd's programs as they say, else by those of passwd.
const USER: &str = "\
if command -v systemd-sysusers >/dev/null && [ -f /usr/lib/sysusers.d/nephila.conf ]; then
    systemd-sysusers nephila.conf
fi
getent group nephila >/dev/null || groupadd --system nephila
getent passwd nephila >/dev/null || useradd --system --gid nephila --no-create-home --home-dir /var/lib/nephila --shell /usr/sbin/nologin nephila
install -d -o nephila -g nephila -m 0750 /var/lib/nephila
install -d -o root -g nephila -m 0750 /etc/nephila
";
/// Tells systemd, where it runs, that units have changed.
const RELOAD: &str = "\
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
";
/// Running services go on with the new program: they stop as by Ctrl-C, and continue.
const RESTART: &str = "\
if [ -d /run/systemd/system ]; then
    systemctl try-restart 'nephila@*.service' nephila-node.service nephila-spider.service || true
fi
";
const STOP: &str = "\
if [ -d /run/systemd/system ]; then
    systemctl stop 'nephila@*.service' nephila-node.service nephila-spider.service || true
fi
";
/// All that services and their user have left.
const PURGE: &str = "\
rm -rf /var/lib/nephila /etc/nephila
rm -f /etc/systemd/system/multi-user.target.wants/nephila@*.service
rm -f /etc/systemd/system/multi-user.target.wants/nephila-node.service
rm -f /etc/systemd/system/multi-user.target.wants/nephila-spider.service
if getent passwd nephila >/dev/null; then userdel nephila; fi
if getent group nephila >/dev/null; then groupdel nephila; fi
";

/// After unpacking a Debian package.
pub(crate) fn postinst() -> String {
    format!("#!/bin/sh\nset -e\nif [ \"$1\" = configure ]; then\n{}fi\n", indented(&[USER, RELOAD, RESTART]))
}

/// Before the removal of a Debian package.
pub(crate) fn prerm() -> String {
    format!("#!/bin/sh\nset -e\nif [ \"$1\" = remove ]; then\n{}fi\n", indented(&[STOP]))
}

/// After the removal of a Debian package; with `purge` nothing is left, not even the crawls.
pub(crate) fn postrm() -> String {
    let (purge, reload) = (indented(&[PURGE]), RELOAD);
    format!("#!/bin/sh\nset -e\nif [ \"$1\" = purge ]; then\n{purge}fi\n{reload}")
}

/// After unpacking an RPM package.
pub(crate) fn post() -> String {
    [USER, RELOAD, RESTART].concat()
}

/// Before the removal of an RPM package, but not before an upgrade.
pub(crate) fn preun() -> String {
    format!("if [ \"$1\" = 0 ]; then\n{}fi\n", indented(&[STOP]))
}

/// After the removal of an RPM package. The crawls and their user stay: rpm knows no purge.
pub(crate) fn postun() -> String {
    RELOAD.to_owned()
}

fn indented(parts: &[&str]) -> String {
    parts.concat().lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::shell;

    #[test]
    fn a_shell_can_read_all_scripts() {
        for script in [postinst(), prerm(), postrm(), post(), preun(), postun()] {
            shell::output(Command::new("sh").args(["-n", "-c", &script]), Duration::from_secs(10)).unwrap();
        }
    }
}
