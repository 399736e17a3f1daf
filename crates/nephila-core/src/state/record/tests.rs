//! Records and their bytes: each value comes back, and the common record is short.

use proptest::prelude::*;

use super::*;

fn state() -> impl Strategy<Value = UrlState> {
    prop_oneof![
        Just(UrlState::Waiting),
        Just(UrlState::Parked),
        any::<u32>().prop_map(|due| UrlState::Later(Seconds(due))),
        Just(UrlState::Ended),
        (0..Refusal::ALL.len()).prop_map(|i| UrlState::Refused(Refusal::ALL[i])),
    ]
}

fn seen(seconds: u32) -> Seen {
    let mut seen = Seen::default();
    if seconds.is_multiple_of(2) {
        seen.take(crate::recrawl::rate::Visit { seconds, changes: 7 });
    }
    seen
}

prop_compose! {
    fn last()(fetch: u64, at: u32, outcome in 0..Outcome::ALL.len(), status: u16, digest: u64, changes: u16,
              etag in "[ -~]{0,20}", last_modified in "[ -~]{0,30}") -> LastFetch {
        LastFetch { fetch, at: Seconds(at), outcome: Outcome::ALL[outcome], status, digest, changes,
                    etag: etag.into(), last_modified: last_modified.into() }
    }
}

proptest! {
    #[test]
    fn a_url_is_read_as_written(state in state(), job: u32, depth: u8, hops in (0..3u8).prop_map(Hops::by_code),
                                read_as in prop::sample::select(ReadAs::ALL),
                                priority: u8, retries: u8, hits: u32, found: u32,
                                last in proptest::option::of(last()), text in proptest::option::of("[ -~]{0,60}"),
                                tag in "[a-z0-9]{0,8}") {
        let record = UrlRecord { state, job: JobId(job), depth, hops, read_as, priority, retries, hits, found: Seconds(found),
                                 last: last.map(Box::new), text: text.map(Into::into), tag: tag.into(), seen: seen(hits),
                                 via: (found % 2 == 0).then(Via::seed) };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(UrlRecord::decode(&bytes), Ok(record));
        for cut in 0..bytes.len() {
            // Shorter bytes are never read past their end; their content does not matter.
            let _ = UrlRecord::decode(&bytes[..cut]);
        }
    }

    #[test]
    fn a_host_is_read_as_written(origin in "https?://[a-z.]{1,30}", numbers: [u32; 8], rest: u64, delay: u32,
                                 failures: u8, stopped in "[ -~]{0,20}") {
        let record = HostRecord {
            origin: origin.into(), found: Seconds(numbers[0]), waiting: numbers[1].into(), parked: numbers[2].into(),
            later: numbers[3].into(), later_next: Seconds(numbers[4]), ended: numbers[5].into(),
            floor: QueueKey { band: failures, age: Seconds(numbers[6]), low: numbers[7] },
            later_floor: LaterKey { due: Seconds(numbers[6]), path: rest },
            rest_until: Timestamp(rest), failures, delay, stopped: stopped.into(),
            robots: RobotsRecord { policy: RobotsPolicy::Rules, fetched: Seconds(numbers[0]), expires: Seconds(numbers[1]),
                                   unreachable_since: Seconds(0), crawl_delay: delay,
                                   unread: (failures % 2 == 0).then_some(Unread::Failed(Outcome::TlsUntrusted)) },
            alike: Alike::default(), pages: numbers[5].into(), site: Site::default(), trust: Trust::default(),
            claims: Claims::default(), missing: 0, spent: Spent::default(),
        };
        let mut record = record;
        if failures % 3 == 0 {
            record.spent.take(Seconds(numbers[2]), rest);
        }
        if failures % 2 == 0 {
            seen(numbers[3]).handle_visit(std::time::Duration::from_secs(9), true, &mut record.site);
        }
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(HostRecord::decode(&bytes), Ok(record));
    }

    #[test]
    fn a_domain_is_read_as_written(found: u32, hosts: u32, counts: [u32; 3], budget in proptest::option::of(0..u64::MAX)) {
        let record = DomainRecord { found: Seconds(found), hosts, admitted: counts[0].into(), parked: counts[1].into(),
                                    bare: counts[2].into(), budget };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(DomainRecord::decode(&bytes), Ok(record));
    }
}

#[test]
fn a_page_within_scope_costs_no_byte_for_being_one() {
    let bytes = |hops, read_as| {
        let hops = Hops::by_code(hops);
        let mut bytes = Vec::new();
        let plain = UrlRecord::new(UrlState::Waiting, JobId(9), 3, 1, Seconds(77));
        UrlRecord { hops, read_as, ..plain }.encode(&mut bytes);
        bytes
    };
    let plain = bytes(0, ReadAs::Page);
    assert_eq!(plain, [0, 0, 9, 3, 1, 77], "as it was written before there were hops");
    assert_eq!(bytes(1, ReadAs::Page).len(), plain.len() + 1);
    assert_eq!(bytes(1, ReadAs::Feed).len(), plain.len() + 2);
}

#[test]
fn a_parked_key_costs_two_bytes_before_compression() {
    let mut bytes = Vec::new();
    UrlRecord::new(UrlState::ParkedBare, JobId(9), 3, 1, Seconds(77)).encode(&mut bytes);
    assert_eq!(bytes.len(), 2);
    assert_eq!(UrlRecord::decode(&bytes).unwrap().state, UrlState::ParkedBare);
}
