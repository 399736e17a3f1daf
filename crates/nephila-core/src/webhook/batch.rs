//! The bodies of deliveries: events as JSON lines become one or more JSON documents of bounded size.
//!
//! The document has the members that Standard Webhooks recommends: `type`, `timestamp`, `data`.
//!
//! Invariants: the same events and limits give the same bytes; no body is empty of events; the order of events stays;
//! only the last body of a page names the position behind the page.

use std::borrow::Cow;

use serde::Deserialize;

use crate::time::Timestamp;

/// Limits of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum size of the events in bytes. A larger event is delivered alone.
    pub bytes_max: usize,
}

/// One request to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The JSON document.
    pub body: Vec<u8>,
    /// The number of events in the body.
    pub events: usize,
    /// The time of the first event that has one.
    pub begins: Option<Timestamp>,
}

/// The time of an event, as its line has it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct At<'a> {
    #[serde(borrow)]
    at: Cow<'a, str>,
}

/// The bodies for these lines of events, which end at this position.
pub fn deliveries(webhook: &str, lines: &[u8], position: &str, limits: Limits) -> Vec<Delivery> {
    let mut groups: Vec<Vec<&[u8]>> = Vec::new();
    let mut bytes = 0;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match groups.last_mut() {
            Some(group) if group.len() < limits.events_max && bytes + line.len() <= limits.bytes_max => {
                bytes += line.len();
                group.push(line);
            }
            _ => {
                bytes = line.len();
                groups.push(vec![line]);
            }
        }
    }
    let count = groups.len();
    let bodies = groups.into_iter().enumerate();
    bodies
        .map(|(number, lines)| delivery(webhook, &lines, (number + 1 == count).then_some(position)))
        .collect()
}

fn delivery(webhook: &str, lines: &[&[u8]], position: Option<&str>) -> Delivery {
    let text = |text: &str| serde_json::to_string(text).expect("a string can be written");
    let dates: Vec<String> = lines.iter().filter_map(|line| date(line)).collect();
    let mut body = b"{\"type\":\"events\",".to_vec();
    if let Some(last) = dates.last() {
        body.extend(format!("\"timestamp\":{},", text(last)).bytes());
    }
    body.extend(format!("\"data\":{{\"webhook\":{},\"events\":[", text(webhook)).bytes());
    body.extend(lines.join(&b','));
    body.push(b']');
    if let Some(position) = position {
        body.extend(format!(",\"position\":{}", text(position)).bytes());
    }
    body.extend(b"}}");
    let begins = dates.first().and_then(|date| date.parse::<jiff::Timestamp>().ok());
    let begins = begins.and_then(|date| u64::try_from(date.as_millisecond()).ok()).map(Timestamp);
    Delivery { body, events: lines.len(), begins }
}

fn date(line: &[u8]) -> Option<String> {
    let At { at } = serde_json::from_slice(line).ok()?;
    (!at.is_empty()).then(|| at.into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::event::{Event, Kind};

    fn lines(count: u64) -> Vec<u8> {
        let event = |number: u64| Event {
            id: format!("0.{number}.0.0.00000001"),
            kind: Kind::Story,
            at: Timestamp::from_secs(1_700_000_000 + number).warc_date(),
            title: "\"a\nb\"".into(),
            ..Event::default()
        };
        (0..count).flat_map(|number| event(number).line()).collect()
    }

    #[test]
    fn a_page_becomes_bodies_within_the_limits_in_order() {
        let limits = Limits { events_max: 3, bytes_max: 1 << 20 };
        let all = deliveries("mine", &lines(7), "0.6.00000001", limits);
        assert_eq!(all.iter().map(|one| one.events).collect::<Vec<_>>(), [3, 3, 1]);
        let bodies: Vec<Value> = all.iter().map(|one| serde_json::from_slice(&one.body).unwrap()).collect();
        let ids = bodies.iter().flat_map(|body| body["data"]["events"].as_array().unwrap());
        let ids: Vec<&str> = ids.map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(ids, (0..7).map(|number| format!("0.{number}.0.0.00000001")).collect::<Vec<_>>());
        assert_eq!(bodies[0]["type"], "events");
        assert_eq!(bodies[0]["timestamp"], "2023-11-14T22:13:22Z", "that of the last event");
        assert_eq!(all[1].begins, Some(Timestamp::from_secs(1_700_000_003)));
        assert_eq!(bodies[0]["data"]["webhook"], "mine");
        assert_eq!(bodies[0]["data"]["position"], Value::Null, "the page goes on");
        assert_eq!(bodies[2]["data"]["position"], "0.6.00000001");
        assert_eq!(deliveries("mine", &lines(7), "0.6.00000001", limits), all, "the same bytes");
        assert_eq!(deliveries("mine", b"", "beginning", limits), []);
    }

    #[test]
    fn bytes_are_bounded_and_a_large_event_goes_alone() {
        let line = lines(1).len() - 1;
        let of = |bytes_max| {
            let all = deliveries("m", &lines(5), "p", Limits { events_max: 100, bytes_max });
            all.iter().map(|one| one.events).collect::<Vec<_>>()
        };
        assert_eq!(of(2 * line), [2, 2, 1]);
        assert_eq!(of(2 * line - 1), [1; 5]);
        assert_eq!(of(1), [1; 5]);
    }

    #[test]
    fn a_gap_has_no_time_and_is_delivered() {
        let all = deliveries("m", &Event::gap(1, 2, 3).line(), "p", Limits { events_max: 1, bytes_max: 1 });
        let body: Value = serde_json::from_slice(&all[0].body).unwrap();
        assert_eq!((&body["timestamp"], &body["data"]["events"][0]["kind"]), (&Value::Null, &"gap".into()));
        assert_eq!(all[0].begins, None);
    }
}
