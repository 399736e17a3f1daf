//! What a process says to systemd, which has started it as a service (`Type=notify`): ready, alive, stopping.
//!
//! The messages are those of sd_notify(3), datagrams to the socket that `NOTIFY_SOCKET` names. Without the variable, such as in a
//! shell, nothing is said. With `WatchdogSec=` in the unit, a process that does not say for so long that it lives is started again.
//!
//! A process says so only when each of its [`Part`]s did, and a part is a loop that decides: it does once it had an answer from the
//! thread that gives out work, or has come round by itself. No timer of its own keeps a process alive that hangs.
//!
//! Invariants: a message never delays a crawl for longer than [`SEND_MAX`]; a message that is lost is no error.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum wait for room in the socket, which systemd empties at once.
const SEND_MAX: Duration = Duration::from_millis(200);
/// Interval between two signs of life of a part that has no interval of its own.
pub const BEAT: Duration = Duration::from_secs(5);

/// The service that this process is. By default none: then nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Service(Option<Arc<Told>>);

#[derive(Debug)]
struct Told {
    socket: UnixDatagram,
    /// Half of the time after which systemd gives the process up. None without a watchdog.
    every: Option<Duration>,
    beats: Mutex<Beats>,
    is_stopping: AtomicBool,
}

/// Signs of life since the last message.
#[derive(Debug, Default)]
struct Beats {
    /// Whether each part gave one.
    given: Vec<bool>,
    /// Time of the last message.
    told: Option<Instant>,
}

impl Service {
    /// The service that systemd describes in the environment. A description that is wrong is logged, and ignored.
    pub fn of_environment() -> Service {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Service::default();
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // The watchdog may be meant for another process, which has started this one.
        let is_ours = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_ours);
        Service::new(&socket, watchdog.map(Duration::from_micros)).unwrap_or_else(|error| {
            tracing::warn!(%error, "NOTIFY_SOCKET {}: {error}; systemd is told nothing", socket.display());
            Service::default()
        })
    }

    /// A service that is told about at a socket, and given up when nothing is heard for `watchdog`.
    fn new(socket: &OsStr, watchdog: Option<Duration>) -> io::Result<Service> {
        let told = Told {
            socket: UnixDatagram::unbound()?,
            every: watchdog.map(|limit| limit / 2),
            beats: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        };
        told.socket.connect_addr(&address(socket)?)?;
        told.socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Service(Some(Arc::new(told))))
    }

    /// The service answers.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// The service ends: systemd waits for its end from now on, not for signs of life. Repeated calls do nothing.
    pub fn stopping(&self) {
        if self.0.as_ref().is_some_and(|told| !told.is_stopping.swap(true, Ordering::Relaxed)) {
            self.say("STOPPING=1");
        }
    }

    /// One more part, without which the service is not alive.
    pub fn part(&self) -> Part {
        let number = self.0.as_ref().map_or(0, |told| {
            let mut beats = told.beats.lock().unwrap_or_else(PoisonError::into_inner);
            beats.given.push(false);
            beats.given.len() - 1
        });
        Part { service: self.clone(), number }
    }

    fn say(&self, message: &str) {
        if let Some(told) = &self.0
            && let Err(error) = told.socket.send(message.as_bytes())
        {
            tracing::debug!(%error, "systemd was not told {message}: {error}");
        }
    }
}

/// A part of a service that decides, and whose end would be the end of the work.
#[derive(Debug)]
pub struct Part {
    service: Service,
    number: usize,
}

impl Part {
    /// This part lives: it had an answer, or has come round. Cheap: systemd is told when half of its time is over.
    pub fn alive(&self) {
        let Some(told) = &self.service.0 else { return };
        let Some(every) = told.every else { return };
        let mut beats = told.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.given[self.number] = true;
        let is_due = beats.told.is_none_or(|before| before.elapsed() >= every);
        if is_due && beats.given.iter().all(|given| *given) {
            beats.given.fill(false);
            beats.told = Some(Instant::now());
            self.service.say("WATCHDOG=1");
        }
    }
}

/// The address of a socket: a path, or after `@` an abstract name.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::ffi::OsStrExt;
        if let [b'@', name @ ..] = name.as_bytes() {
            return SocketAddr::from_abstract_name(name);
        }
    }
    SocketAddr::from_pathname(Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the service manager has heard since the last call.
    fn heard(manager: &UnixDatagram) -> Vec<String> {
        manager.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        let next =
            || manager.recv(&mut bytes).ok().map(|len| String::from_utf8_lossy(&bytes[..len]).into_owned());
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_service_says_that_it_is_ready_and_once_that_it_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let service = Service::new(path.as_os_str(), None).unwrap();
        service.ready();
        service.part().alive();
        service.stopping();
        service.clone().stopping();
        assert_eq!(heard(&manager), ["READY=1", "STOPPING=1"], "and nothing for a watchdog that nobody set");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_socket_may_have_an_abstract_name() {
        let name = format!("@nephila-service-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&address(OsStr::new(&name)).unwrap()).unwrap();
        Service::new(OsStr::new(&name), None).unwrap().ready();
        assert_eq!(heard(&manager), ["READY=1"]);
    }

    #[test]
    fn a_service_lives_while_each_of_its_parts_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let service = Service::new(path.as_os_str(), Some(Duration::ZERO)).unwrap();
        let (one, two) = (service.part(), service.part());
        one.alive();
        one.alive();
        assert!(heard(&manager).is_empty(), "the other part may hang");
        two.alive();
        assert_eq!(heard(&manager), ["WATCHDOG=1"]);
        two.alive();
        assert!(heard(&manager).is_empty(), "now the first one may");
    }

    #[test]
    fn signs_of_life_are_told_at_half_of_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let part = Service::new(path.as_os_str(), Some(Duration::from_secs(600))).unwrap().part();
        for _ in 0..100 {
            part.alive();
        }
        assert_eq!(heard(&manager), ["WATCHDOG=1"]);
    }

    #[test]
    fn nothing_is_said_to_nobody() {
        let service = Service::default();
        service.ready();
        service.part().alive();
        service.stopping();
        assert!(Service::new(OsStr::new("/nowhere/notify"), None).is_err());
    }
}
