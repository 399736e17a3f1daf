//! Tests of the foundation of a cluster, and of names.

use super::*;

#[tokio::test]
async fn clu_20_a_program_stays_out_of_a_cluster_that_a_newer_one_has_raised() {
    let leases = nephila_log::memory::Engine::new(Duration::from_secs(15)).leases();
    let founded = found(&leases, 16).await.unwrap();
    assert_eq!((founded.format, found(&leases, 99).await.unwrap()), (1, founded.clone()));
    raise(&leases, FORMAT).await.unwrap();
    assert_eq!(found(&leases, 16).await.unwrap(), Foundation { format: FORMAT, ..founded.clone() });
    // One from before formats were counted is as it was.
    let old: Foundation = serde_json::from_str(r#"{"partitions":16,"secret":"00"}"#).unwrap();
    assert_eq!((old.format, old.check().is_ok()), (1, true));
    let item = leases.record(FOUNDATION).await.unwrap().unwrap();
    let raised = serde_json::to_vec(&Foundation { format: FORMAT + 1, ..founded }).unwrap();
    leases.put(FOUNDATION, Some(item.revision), raised.into()).await.unwrap().unwrap();
    let why = found(&leases, 16).await.unwrap_err().to_string();
    assert!(why.contains("newer nephila has raised it"), "{why}");
}

#[test]
fn out_04_archive_files_are_named_after_the_node_unless_a_name_is_set() {
    let mut store = nephila_store::archive::Settings::default();
    name_files(&mut store, "berlin-1");
    assert_eq!(store.node, "berlin-1");
    name_files(&mut store, "berlin-2");
    assert_eq!(store.node, "berlin-1", "what is set stays");
}

#[test]
fn a_secret_is_read_as_it_was_written_and_nothing_else() {
    let secret = parse_secret("000102030405060708090a0b0c0d0eff").unwrap();
    assert_eq!((secret.0[1], secret.0[15]), (1, 255));
    for wrong in ["", "00", "zz0102030405060708090a0b0c0d0eff", "é00102030405060708090a0b0c0d0eff"] {
        assert!(parse_secret(wrong).is_none(), "{wrong}");
    }
}
