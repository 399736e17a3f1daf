//! Frames as bytes.

use data_encoding::HEXLOWER;

use super::*;
use crate::remote::v2::frame::FrameError;
use crate::remote::v2::message::{ExchangeFacts, FIELDS_MAX};
use crate::store::Truncation;

fn golden_wanted() -> Wanted {
    Wanted {
        url: "http://a.test/x".into(),
        address: "192.0.2.1".parse().unwrap(),
        connections_max: 2,
        head_only: false,
        keep_exchange: true,
        second: true,
        is_typed: false,
        keep_connection: true,
        body_bytes_max: Some(1_000),
        read_as: Some(crate::handler::ReadAs::Style),
        fields: vec![("accept".into(), b"*/*".to_vec())],
    }
}

/// A frame of every type, and its bytes, which another program has written.
fn golden() -> Vec<(Frame, &'static str)> {
    vec![
        (
            Frame::Hello { version: 2, token: "t0ken".into(), name: "one".into(), capacity: 300, session: 7 },
            "0000000e01000000020574306b656e036f6e65ac0207",
        ),
        (Frame::Beat { number: 128 }, "00000002020000008001"),
        (Frame::Room { capacity: 0 }, "000000010300000000"),
        (
            Frame::Done { id: 5, facts: 3, body: 4, start: b"abc".as_slice().into() },
            "0000000604000000050304616263",
        ),
        (Frame::Data { id: 5, bytes: b"wxyz".as_slice().into() }, "0000000505000000057778797a"),
        (Frame::End { id: 5, check: 0x0102_0304_0506_0708 }, "0000000906000000050102030405060708"),
        (Frame::Return { id: 300 }, "0000000207000000ac02"),
        (Frame::Bye, "0000000008000000"),
        (
            Frame::Welcome {
                session: 7,
                resumed: true,
                open: vec![1, 300],
                window: 4 << 20,
                settings: "{}".into(),
            },
            "0000000c41000000070180808002027b7d01ac02",
        ),
        (Frame::Lease { number: 128, ms: 15_000 }, "000000044200000080019875"),
        (
            Frame::Fetch { id: 5, wanted: Box::new(golden_wanted()) },
            "0000002843000000050f687474703a2f2f612e746573742f7804c0000201021601e807050106616363657074032a2f2a",
        ),
        (Frame::Cancel { id: 5 }, "000000014400000005"),
        (Frame::Stored { ids: vec![5, 128] }, "0000000345000000058001"),
        (Frame::Window { bytes: 65_536 }, "0000000346000000808004"),
        (Frame::Error { code: Code::Token, text: "no".into() }, "0000000347000000036e6f"),
    ]
}

fn take_all(bytes: &mut BytesMut) -> Vec<Frame> {
    std::iter::from_fn(|| Frame::take(bytes).unwrap()).collect()
}

#[test]
fn every_type_of_frame_has_its_bytes() {
    for (frame, hex) in golden() {
        assert_eq!(HEXLOWER.encode(&frame.to_bytes()), hex, "{frame:?}");
        let mut bytes = BytesMut::from(&HEXLOWER.decode(hex.as_bytes()).unwrap()[..]);
        assert_eq!(take_all(&mut bytes), [frame]);
        assert!(bytes.is_empty());
    }
}

#[test]
fn frames_that_are_cut_anywhere_are_the_same_frames() {
    let all: Vec<u8> = golden().iter().flat_map(|(frame, _)| frame.to_bytes()).collect();
    let frames: Vec<Frame> = golden().into_iter().map(|(frame, _)| frame).collect();
    for at in 0..=all.len() {
        let mut bytes = BytesMut::from(&all[..at]);
        let mut found = take_all(&mut bytes);
        bytes.extend_from_slice(&all[at..]);
        found.extend(take_all(&mut bytes));
        assert_eq!(found, frames, "cut at {at}");
    }
    let (mut bytes, mut found) = (BytesMut::new(), Vec::new());
    for byte in &all {
        bytes.extend_from_slice(&[*byte]);
        found.extend(take_all(&mut bytes));
    }
    assert_eq!(found, frames, "byte by byte");
}

#[test]
fn a_payload_that_is_cut_or_too_long_is_no_frame() {
    for (frame, _) in golden() {
        let whole = frame.to_bytes();
        // The last part of these is as long as the frame.
        let has_open_end = matches!(
            frame,
            Frame::Done { .. }
                | Frame::Data { .. }
                | Frame::Error { .. }
                | Frame::Stored { .. }
                | Frame::Welcome { .. }
        );
        for len in 0..whole.len() - HEAD_BYTES {
            let mut bytes = BytesMut::from(&whole[..HEAD_BYTES + len]);
            bytes[..4].copy_from_slice(&(len as u32).to_be_bytes());
            if !has_open_end {
                assert!(
                    matches!(Frame::take(&mut bytes), Err(FrameError::Payload(_))),
                    "{frame:?} with {len} bytes"
                );
            }
        }
        if !has_open_end {
            let mut bytes = BytesMut::from(&whole[..]);
            bytes.extend_from_slice(&[0]);
            let len = (bytes.len() - HEAD_BYTES) as u32;
            bytes[..4].copy_from_slice(&len.to_be_bytes());
            assert_eq!(Frame::take(&mut bytes), Err(FrameError::Rest(whole[4])), "{frame:?}");
        }
    }
}

#[test]
fn a_frame_of_an_unknown_type_is_skipped_only_if_it_may_be() {
    let next = Frame::Beat { number: 1 }.to_bytes();
    let mut skipped = BytesMut::from(&[&[0, 0, 0, 2, 99, 1, 0, 0, 7, 7], &next[..]].concat()[..]);
    assert_eq!(take_all(&mut skipped), [Frame::Beat { number: 1 }]);
    let mut refused = BytesMut::from(&[&[0, 0, 0, 2, 99, 0, 0, 0, 7, 7], &next[..]].concat()[..]);
    assert_eq!(Frame::take(&mut refused), Err(FrameError::Type(99)));
    // The flag does not excuse a known type.
    let mut broken = BytesMut::from(&[0, 0, 0, 0, 2, 1, 0, 0][..]);
    assert!(matches!(Frame::take(&mut broken), Err(FrameError::Payload(_))));
}

#[test]
fn a_head_is_refused_before_its_payload_is_kept() {
    let len = PAYLOAD_BYTES_MAX as u32 + 1;
    let mut long = BytesMut::from(&[&len.to_be_bytes()[..], &[2, 0, 0, 0]].concat()[..]);
    assert_eq!(Frame::take(&mut long), Err(FrameError::Long(len)));
    let mut reserved = BytesMut::from(&[0, 0, 0, 1, 2, 0, 0, 1, 5][..]);
    assert_eq!(Frame::take(&mut reserved), Err(FrameError::Reserved));
}

#[test]
fn the_largest_frames_fit() {
    let done =
        Frame::Done { id: u64::MAX, facts: u32::MAX, body: u64::MAX, start: vec![7; DATA_BYTES_MAX].into() };
    let open = vec![u64::MAX; CAPACITY_MAX as usize];
    let (session, window) = (u64::MAX, u64::MAX);
    let welcome = Frame::Welcome { session, resumed: true, open, window, settings: "s".repeat(32 << 10) };
    for frame in [done, welcome] {
        let mut bytes = BytesMut::from(&frame.to_bytes()[..]);
        assert_eq!(take_all(&mut bytes), [frame]);
    }
}

fn all_facts() -> Facts {
    Facts {
        outcome: Outcome::Fetched,
        detail: "d\u{e9}tail".into(),
        status: Some(200),
        fields: vec![("server".into(), b"\xff x".to_vec())],
        address: Some("[2001:db8::1]:443".parse().unwrap()),
        protocol: "h2".into(),
        tls: ("TLSv1.3".into(), "cipher".into()),
        certificate: Some(Outcome::ConnectTimeout),
        reused: true,
        requests: 2,
        again: true,
        phases: [Some(1), None, Some(300), None, Some(u64::MAX)],
        total: 301,
        head_bytes: 17,
        body_bytes: 1 << 40,
        decoded_bytes: 5,
        decoding: "gzip".into(),
        redirect: "http://b.test/".into(),
        truncated: Some(Truncation::Disconnect),
        retry_after: Some(60),
        found: vec![1, 2, 3],
        exchange: Some(ExchangeFacts {
            started_ago: 12,
            address: Some("192.0.2.9".parse().unwrap()),
            request_head: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            response_head: b"HTTP/1.1 200\r\n\r\n".to_vec(),
            notes: vec![("via".into(), "proxy".into())],
        }),
    }
}

#[test]
fn facts_are_read_as_they_were_written_and_in_no_other_length() {
    for facts in [all_facts(), facts_of("plain")] {
        let bytes = facts.to_bytes();
        assert_eq!(Facts::read(&bytes), Ok(facts));
        for len in 0..bytes.len() {
            assert!(Facts::read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        assert!(Facts::read(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn facts_with_too_many_fields_are_not_read() {
    let field = |n: usize| (format!("f{n}"), Vec::new());
    let most = Facts { fields: (0..FIELDS_MAX).map(field).collect(), ..facts_of("") };
    assert!(Facts::read(&most.to_bytes()).is_ok());
    let more = Facts { fields: (0..=FIELDS_MAX).map(field).collect(), ..facts_of("") };
    assert!(Facts::read(&more.to_bytes()).is_err());
}
