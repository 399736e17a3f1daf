//! `nephila cluster keys`: creates the keys and permissions for the NATS servers of a cluster.
//!
//! The folder gets a certificate authority, a certificate for each server, an nkey and a certificate for each node, an
//! nkey for the operator and one for programs that read events, the tokens of the API, and `accounts.conf`, which the
//! servers include. That file has public keys only. The command is idempotent: existing files stay, missing ones are
//! created; a fourth node is one more `--node`.
//!
//! Invariants: no secret is printed, a secret file is readable by its owner alone, an existing one is never changed; a
//! node may write its own lease and no other; the certificate of a node opens no route between servers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use data_encoding::BASE64URL_NOPAD;
use nkeys::{KeyPair as Nkey, KeyPairType};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use nephila_api::tls::name_of;
use nephila_engine::settings::usage;

/// Prefix of the key names of nodes.
pub const NODE: &str = "node-";
/// Suffix of an nkey file.
pub const NKEY: &str = ".nk";
/// The user of `nephila job` and `nephila cluster`.
pub const OPERATOR: &str = "operator";
/// The user of programs that read events.
pub const READER: &str = "reader";
/// JetStream API subjects of the operator: streams, records, and reading a stream. The first command may run before the
/// first node, and creates the streams.
pub const OPERATOR_API: &[&str] = &[
    "INFO",
    "STREAM.CREATE.*",
    "STREAM.INFO.*",
    "STREAM.NAMES",
    "STREAM.MSG.GET.*",
    "DIRECT.GET.>",
    "CONSUMER.CREATE.>",
    "CONSUMER.INFO.>",
    "CONSUMER.MSG.NEXT.>",
    "CONSUMER.DELETE.>",
];
/// The tokens of the API: for operators, for read requests, and for nodes among themselves.
pub const TOKENS: [&str; 3] = ["operate.token", "read.token", "node.token"];
/// Number of random bytes in a token.
pub const TOKEN_BYTES: usize = 32;
/// The file that servers include.
pub const ACCOUNTS: &str = "accounts.conf";
/// Maximum length of the name of a node or a server.
pub const NAME_MAX: usize = 100;

/// The keys that are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The folder for them.
    pub dir: PathBuf,
    /// The name of the cluster.
    pub cluster: String,
    /// The names or addresses by which nodes reach the NATS servers.
    pub servers: Vec<String>,
    /// Nodes, as `NAME` or `NAME=HOST+HOST`.
    pub nodes: Vec<String>,
}

/// Makes the keys that are missing. Returns the words that say what to do with them.
pub fn make(wanted: &Wanted) -> anyhow::Result<String> {
    let Wanted { dir, cluster, servers, nodes } = wanted;
    let nodes: Vec<(&str, Vec<&str>)> = nodes.iter().map(|node| named(node)).collect();
    for name in nodes.iter().map(|(name, _)| *name).chain([&**cluster]) {
        if !is_plain(name, "-_") {
            return Err(usage(anyhow::anyhow!("{name:?} is no name: letters, digits, `-` and `_`")));
        }
    }
    for (name, _) in &nodes {
        name_of(name, cluster).map_err(|error| usage(anyhow::anyhow!(error)))?;
    }
    let mut hosts = servers.iter().map(String::as_str).chain(nodes.iter().flat_map(|(_, at)| at.clone()));
    if let Some(name) = hosts.find(|name| !is_plain(name, "-_.:")) {
        return Err(usage(anyhow::anyhow!("{name:?} is neither the name nor the address of a machine")));
    }
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let issuer = authority(dir, cluster)?;
    for server in servers {
        // Servers of a cluster are clients of each other.
        let uses = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        certificate(dir, &format!("server-{server}"), &[server], &uses, &issuer)?;
    }
    for (node, hosts) in &nodes {
        let name = name_of(node, cluster).map_err(anyhow::Error::msg)?;
        let name = name.to_str();
        let names: Vec<&str> = [&*name].into_iter().chain(hosts.iter().copied()).collect();
        certificate(dir, &format!("{NODE}{node}"), &names, &[ExtendedKeyUsagePurpose::ServerAuth], &issuer)?;
    }
    for name in nodes.iter().map(|(node, _)| format!("{NODE}{node}")).chain([OPERATOR.into(), READER.into()])
    {
        let file = dir.join(format!("{name}{NKEY}"));
        if !file.exists() {
            let seed = Nkey::new_user().seed().map_err(|error| anyhow::anyhow!("making a key: {error}"))?;
            new_file(&file, &format!("{seed}\n"))?;
        }
    }
    for file in TOKENS.map(|name| dir.join(name)).iter().filter(|file| !file.exists()) {
        let mut chance = [0; TOKEN_BYTES];
        aws_lc_rs::rand::fill(&mut chance).map_err(|_| anyhow::anyhow!("the system has no chance left"))?;
        new_file(file, &format!("{}\n", BASE64URL_NOPAD.encode(&chance)))?;
    }
    let accounts = accounts(cluster, &users(dir)?);
    // Generated from the keys each time, and replaced atomically.
    let fresh = dir.join("accounts.conf.new");
    fs::write(&fresh, accounts)
        .and_then(|()| fs::rename(&fresh, dir.join(ACCOUNTS)))
        .with_context(|| format!("writing {ACCOUNTS} in {}", dir.display()))?;
    Ok(told(wanted))
}

/// Whether a name has 1 to [`NAME_MAX`] bytes, all of them ASCII letters, digits or characters of `more`.
pub fn is_plain(name: &str, more: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(plain)
}

/// Instructions for the created files.
pub fn told(wanted: &Wanted) -> String {
    let (dir, cluster) = (wanted.dir.display(), &wanted.cluster);
    let server = wanted.servers.first().map_or("SERVER", |name| name);
    let node = wanted.nodes.first().map_or("NAME", |node| named(node).0);
    format!(
        "Keys of the cluster {cluster} are in {dir}. ca.key signs new servers and nodes: keep it away from all of them.\n\
         \n\
         On each server, beside its own certificate and key, in its configuration:\n\
         \n    include {ACCOUNTS}\n    tls {{ cert_file: server-{server}.pem, key_file: server-{server}.key, ca_file: ca.pem }}\n\
         \n\
         On each node, beside ca.pem and its own keys, in its settings:\n\
         \n    [cluster]\n    tls_ca_file = \"{dir}/ca.pem\"\n    nkey_file = \"{dir}/{NODE}{node}{NKEY}\"\n\
         \n    [api]\n    tls_cert_file = \"{dir}/{NODE}{node}.pem\"\n    tls_key_file = \"{dir}/{NODE}{node}.key\"\n    token_file = \"{dir}/operate.token\"\n    \
         read_token_file = \"{dir}/read.token\"\n    node_token_file = \"{dir}/node.token\"\n\
         \n\
         Whoever runs `nephila job` and `nephila cluster` has {OPERATOR}{NKEY} instead, and asks nodes with --ca-file ca.pem and\n\
         --token-file operate.token (or read.token, which only asks); a program that reads events has {READER}{NKEY}.\n"
    )
}

/// The certificate authority of the cluster: loaded, or created.
pub fn authority(dir: &Path, cluster: &str) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let (pem, key) = (dir.join("ca.pem"), dir.join("ca.key"));
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("nephila {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params);
    let pair = match fs::read_to_string(&key) {
        Ok(text) => KeyPair::from_pem(&text).with_context(|| key.display().to_string())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let pair = KeyPair::generate().context("making a key")?;
            new_file(&key, &pair.serialize_pem())?;
            pair
        }
        Err(error) => return Err(error).with_context(|| key.display().to_string()),
    };
    // Told again after a crash between the two files: the same name and the same key make the same authority.
    if !pem.exists() {
        let made = params.self_signed(&pair).context("making the certificate authority")?;
        new_file(&pem, &made.pem())?;
    }
    Ok(Issuer::new(params, pair))
}

/// Validity of ten years: a cluster must not stop by itself one morning. Keys are rotated by creating new ones.
pub fn valid(params: &mut CertificateParams) {
    let year = i32::from(jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).year());
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 10, 1, 1);
}

/// Parses a node argument: its name and its host names, `NAME` or `NAME=HOST+HOST`.
pub fn named(node: &str) -> (&str, Vec<&str>) {
    match node.split_once('=') {
        Some((name, hosts)) => (name, hosts.split('+').collect()),
        None => (node, vec![node]),
    }
}

/// Creates a certificate and a key for these names, in files with this prefix.
pub fn certificate(
    dir: &Path,
    begin: &str,
    names: &[&str],
    uses: &[ExtendedKeyUsagePurpose],
    issuer: &Issuer<'_, KeyPair>,
) -> anyhow::Result<()> {
    let (pem, key) = (dir.join(format!("{begin}.pem")), dir.join(format!("{begin}.key")));
    if pem.exists() {
        return Ok(());
    }
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        .with_context(|| format!("{names:?} are neither names nor addresses of machines"))?;
    params.distinguished_name.push(DnType::CommonName, names[0]);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = uses.to_vec();
    valid(&mut params);
    let pair = KeyPair::generate().context("making a key")?;
    let made = params.signed_by(&pair, issuer).with_context(|| format!("signing {begin}"))?;
    // A key without a certificate is left over from a killed run, and was never used.
    match fs::remove_file(&key) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context(key.display().to_string());
        }
        _ => {}
    }
    new_file(&key, &pair.serialize_pem())?;
    new_file(&pem, &made.pem())
}

/// Writes a file that only its owner can read, atomically.
pub fn new_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .with_context(|| format!("making {}", fresh.display()))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&fresh, path))
        .with_context(|| path.display().to_string())
}

/// The public keys of all users whose keys are in the folder, by name.
pub fn users(dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut users = BTreeMap::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(NKEY));
        let Some(name) = name.filter(|name| is_plain(name, "-_")) else { continue };
        let seed = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let key = Nkey::from_seed(seed.trim()).ok().filter(|key| key.key_pair_type() == KeyPairType::User);
        let key = key.with_context(|| format!("{} holds no seed of a user", path.display()))?;
        users.insert(name.to_owned(), key.public_key());
    }
    Ok(users)
}

/// The configuration that servers include. The cluster has a separate account, so that no other streams are reachable.
/// Programs that read events are in another account: a user with access to JetStream can have an answer sent to any
/// subject of the same account.
pub fn accounts(cluster: &str, users: &BTreeMap<String, String>) -> String {
    let own = format!("neph.{cluster}");
    let partitions = [format!("{own}.*.log.*"), format!("{own}.*.in.*"), format!("{own}.record.>")];
    let mut inside = String::new();
    for (name, key) in users {
        let (publish, subscribe) = if let Some(node) = name.strip_prefix(NODE) {
            // Of the leases its own.
            let more =
                [format!("{own}.lease.node.{node}"), format!("{own}.talk.*"), format!("{own}.events.>")];
            let api = ["$JS.API.>".to_owned(), "$JS.ACK.>".to_owned()];
            let publish: Vec<String> = partitions.iter().cloned().chain(more).chain(api).collect();
            (publish, vec!["_INBOX.>".to_owned(), format!("{own}.talk.*")])
        } else if name == OPERATOR {
            // The operator reads and sends messages, and never removes stored data.
            let api = OPERATOR_API.iter().map(|subject| format!("$JS.API.{subject}"));
            let publish =
                partitions[1..].iter().cloned().chain(api).chain(["$JS.ACK.>".to_owned()]).collect();
            (publish, vec!["_INBOX.>".to_owned()])
        } else {
            continue;
        };
        _ = writeln!(
            inside,
            "      # {name}\n      {{ nkey: {key}, permissions: {{ publish: {publish:?}, subscribe: {subscribe:?} }} }}"
        );
    }
    let mut reading = String::new();
    if let Some(key) = users.get(READER) {
        _ = writeln!(
            reading,
            "      # {READER}\n      {{ nkey: {key}, permissions: {{ publish: {{ deny: \">\" }}, subscribe: \"{own}.events.>\" }} }}"
        );
    }
    format!(
        "# Made by `nephila cluster keys`, again each time it is run. It has public keys alone.\n\
         accounts {{\n\
         \x20 nephila_{cluster} {{\n    jetstream: enabled\n    exports: [{{ stream: \"{own}.events.>\" }}]\n    users: [\n{inside}    ]\n  }}\n\
         \x20 nephila_{cluster}_events {{\n    imports: [{{ stream: {{ account: nephila_{cluster}, subject: \"{own}.events.>\" }} }}]\n    users: [\n{reading}    ]\n  }}\n\
         }}\n"
    )
}
