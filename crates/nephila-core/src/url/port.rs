//! Which ports may be requested. A short allow-list by default, and a block list that no setting opens.
//!
//! Invariant: a port in [`BAD_PORTS`] is refused, whatever the operator allows.

use serde::{Deserialize, Serialize};

/// Ports of other protocols, which browsers refuse too: an HTTP request there could be read as a command. The Fetch
/// standard's list, section "Port blocking".
pub const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// The ports that the crawl may request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortRule {
    /// The allowed ports, except the ones in [`BAD_PORTS`].
    pub allowed: Vec<u16>,
}

impl Default for PortRule {
    fn default() -> Self {
        PortRule { allowed: vec![80, 443, 8080, 8443] }
    }
}

impl PortRule {
    /// Checks whether requests to this port are allowed.
    pub fn check(&self, port: u16) -> Result<(), PortDenied> {
        if BAD_PORTS.binary_search(&port).is_ok() {
            Err(PortDenied::Bad(port))
        } else if !self.allowed.contains(&port) {
            Err(PortDenied::NotAllowed(port))
        } else {
            Ok(())
        }
    }
}

/// Why requests to a port are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortDenied {
    /// The port belongs to another protocol; no setting opens such a port.
    #[error("port {0} belongs to another protocol")]
    Bad(u16),
    /// The port is not in the operator's list.
    #[error("port {0} is not in the allow-list")]
    NotAllowed(u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssr_08_other_ports_are_refused_and_bad_ports_always() {
        assert!(BAD_PORTS.is_sorted());
        assert_eq!(BAD_PORTS.len(), 83);
        let default = PortRule::default();
        for port in [80, 443, 8080, 8443] {
            assert_eq!(default.check(port), Ok(()));
        }
        for port in [6379, 4222, 9200, 81, 65_535] {
            assert_eq!(default.check(port), Err(PortDenied::NotAllowed(port)));
        }
        // An operator's list opens its ports, except for bad ports.
        let wide = PortRule { allowed: (0..=65_535).collect() };
        assert_eq!(wide.check(4222), Ok(()));
        for &port in BAD_PORTS {
            assert_eq!(wide.check(port), Err(PortDenied::Bad(port)));
        }
        assert_eq!(wide.check(22), Err(PortDenied::Bad(22)));
        assert_eq!(wide.check(25), Err(PortDenied::Bad(25)));
    }
}
