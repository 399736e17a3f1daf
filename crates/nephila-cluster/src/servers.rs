//! Settings of the connection to the NATS servers, from the section `[cluster]`.

use nephila_engine::settings::{Cluster, given};
use nephila_log::jetstream::{Credentials, Settings, Tls};

/// Settings of the connection to the NATS servers.
pub fn settings(cluster: &Cluster) -> Settings {
    let credentials = match (&*cluster.user, given(&cluster.nkey_file), given(&cluster.credentials_file)) {
        ("", None, None) => Credentials::None,
        ("", Some(path), _) => Credentials::NkeyFile(path),
        ("", None, Some(path)) => Credentials::File(path),
        (user, ..) => match given(&cluster.password_file) {
            Some(path) => Credentials::UserFile(user.into(), path),
            None => Credentials::User(user.into(), cluster.password.clone()),
        },
    };
    let tls = Tls {
        roots: given(&cluster.tls_ca_file),
        identity: given(&cluster.tls_cert_file).zip(given(&cluster.tls_key_file)),
        first: cluster.tls_first,
    };
    let is_encrypted = cluster.tls || tls != Tls::default();
    Settings {
        servers: cluster.servers.clone(),
        cluster: cluster.name.clone(),
        streams: cluster.streams,
        replicas: cluster.replicas,
        lease_ttl: cluster.lease_ttl,
        credentials,
        tls: is_encrypted.then_some(tls),
        discover: cluster.discover,
        monitors: cluster.monitors.clone(),
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_04_one_way_to_say_who_we_are_is_taken_and_two_are_refused() {
        let nkey = Cluster { nkey_file: "node.nk".into(), ..Cluster::default() };
        assert_eq!(nkey.check(), Ok(()));
        assert_eq!(settings(&nkey).credentials, Credentials::NkeyFile("node.nk".into()));
        assert_eq!(settings(&nkey).tls, None);
        let two = Cluster { user: "ali".into(), ..nkey.clone() };
        let said = two.check().unwrap_err();
        assert!(said.contains("cluster.user and cluster.nkey_file"), "{said}");
        let file = Cluster { user: "ali".into(), password_file: "secret".into(), ..Cluster::default() };
        assert_eq!(settings(&file).credentials, Credentials::UserFile("ali".into(), "secret".into()));
        assert!(Cluster { password: "baba".into(), ..file.clone() }.check().is_err(), "which of them?");
        assert!(Cluster { user: String::new(), ..file }.check().is_err(), "whose is it?");
        let half = Cluster { tls_cert_file: "node.pem".into(), ..Cluster::default() };
        assert!(half.check().unwrap_err().contains("tls_key_file"));
    }

    #[test]
    fn sec_04_whoever_names_a_certificate_speaks_over_tls() {
        let trusting = Cluster { tls_ca_file: "ca.pem".into(), ..Cluster::default() };
        assert_eq!(settings(&trusting).tls.unwrap().roots, Some("ca.pem".into()));
        assert!(settings(&Cluster { tls: true, ..Cluster::default() }).tls.is_some());
    }
}
