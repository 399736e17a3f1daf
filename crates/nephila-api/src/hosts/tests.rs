//! Orders, filters, pages and sums of hosts.

use nephila_core::key::{DomainKey, HostKey};
use nephila_core::time::Seconds;

use super::*;

fn row(name: &str, queued: u64, failures: u8) -> HostRow {
    HostRow {
        key: HostKey { domain: DomainKey::default(), host: 0 },
        origin: format!("http://{name}").into(),
        state: if queued > 0 { HostState::Ready } else { HostState::Idle },
        address: None,
        queued,
        later: 0,
        parked: 0,
        ended: 100 - queued.min(100),
        failures,
        ready_in: Some(queued * 10),
        rest_ms: 2_500,
        stopped: Box::default(),
        found: Seconds(1),
        robots: RobotsRecord::default(),
    }
}

fn seen() -> HostsSeen {
    let rows = (0..10).map(|number| row(&format!("h{number}.test"), number, (number % 3) as u8)).collect();
    HostsSeen { rows, complete: true }
}

fn wanted(pairs: &[(&str, &str)]) -> HostsWanted {
    let of =
        |name: &str| pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
    HostsWanted::of(of).unwrap()
}

fn names(said: &HostsSaid) -> Vec<&str> {
    said.hosts.iter().map(|host| host.origin.strip_prefix("http://").unwrap()).collect()
}

#[test]
fn the_order_is_as_asked() {
    let said = seen().said(&wanted(&[("limit", "2")]), None);
    assert_eq!(names(&said), ["h9.test", "h8.test"], "most URLs first");
    assert_eq!((said.looked_at, said.complete, said.hosts[0].delay_s), (10, true, 2.5));
    assert_eq!(
        names(&seen().said(&wanted(&[("sort", "done"), ("limit", "2")]), None)),
        ["h0.test", "h1.test"]
    );
    let errors = seen().said(&wanted(&[("sort", "errors"), ("limit", "3")]), None);
    assert_eq!(names(&errors), ["h2.test", "h5.test", "h8.test"], "equal ones by name");
    let next = seen().said(&wanted(&[("sort", "next"), ("limit", "2")]), None);
    assert_eq!(names(&next), ["h1.test", "h2.test"], "a host without URLs has no next request");
}

#[test]
fn pages_have_each_host_once() {
    for sort in ["queued", "done", "errors", "next"] {
        let (mut cursor, mut all) = (None::<String>, Vec::new());
        loop {
            let mut pairs = vec![("sort", sort), ("limit", "3")];
            pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let said = seen().said(&wanted(&pairs), None);
            all.extend(names(&said).iter().map(|name| (*name).to_owned()));
            let Some(next) = said.cursor else { break };
            cursor = Some(next);
        }
        assert_eq!(all.len(), 10, "{sort}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 10, "{sort}");
    }
}

#[test]
fn a_filter_takes_states_and_parts_of_names() {
    assert_eq!(names(&seen().said(&wanted(&[("state", "idle")]), None)), ["h0.test"]);
    assert_eq!(names(&seen().said(&wanted(&[("match", "H7")]), None)), ["h7.test"]);
    assert!(names(&seen().said(&wanted(&[("match", "<script>")]), None)).is_empty());
}

#[test]
fn a_parameter_that_makes_no_sense_is_refused() {
    for (name, value) in
        [("sort", "size"), ("state", "angry"), ("limit", "-1"), ("cursor", "7"), ("cursor", "x~y")]
    {
        let of = |other: &str| (other == name).then(|| value.to_owned());
        assert!(HostsWanted::of(of).unwrap_err().starts_with(name), "{name}={value}");
    }
    assert_eq!(wanted(&[("limit", "99999999")]).limit, ROWS_MAX);
    assert_eq!(wanted(&[("limit", "0")]).limit, 1);
}

#[test]
fn the_nodes_of_a_cluster_give_one_list() {
    let wanted_rows = wanted(&[("limit", "3")]);
    let (mut one, mut other) = (seen(), seen());
    one.rows.retain(|row| row.queued % 2 == 0);
    // A host that has just moved is at both.
    other.rows.retain(|row| row.queued % 2 == 1 || row.queued == 8);
    other.complete = false;
    let (mut cursor, mut all) = (None::<(u64, String)>, Vec::new());
    loop {
        let wanted = HostsWanted { behind: cursor.clone(), ..wanted_rows.clone() };
        let said = merge(vec![one.said(&wanted, None), other.said(&wanted, None)], 3);
        assert!(!said.complete);
        all.extend(names(&said).iter().map(|name| (*name).to_owned()));
        let Some(next) = said.cursor else { break };
        cursor = super::cursor(&next);
    }
    let expected: Vec<String> = (0..10).rev().map(|number| format!("h{number}.test")).collect();
    assert_eq!(all, expected);
}

#[test]
fn the_last_outcome_is_told_if_it_is_known() {
    use nephila_core::spider::Outcome;
    let lasts = Lasts::default();
    lasts.note("http://h9.test", Outcome::NotFound, Timestamp::from_secs(1));
    let said = seen().said(&wanted(&[("limit", "2")]), Some(&lasts));
    assert_eq!(said.hosts[0].last_outcome.as_deref(), Some("not-found"));
    assert_eq!(said.hosts[0].last_at.as_deref(), Some("1970-01-01T00:00:01Z"));
    assert_eq!(said.hosts[1].last_outcome, None);
}

#[test]
fn ten_thousand_hosts_are_sorted_in_no_time() {
    let rows = (0..HOSTS_LOOKED_AT_MAX as u64).map(|number| row(&format!("h{number}.test"), number % 977, 0));
    let seen = HostsSeen { rows: rows.collect(), complete: false };
    let began = std::time::Instant::now();
    let said = seen.said(&wanted(&[]), None);
    assert_eq!(said.hosts.len(), ROWS_USUAL);
    assert!(began.elapsed().as_millis() < 1_000, "{:?}", began.elapsed());
}
