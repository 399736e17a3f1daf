//! The second half of a fetch: after the head is judged, the body is read, kept, decoded and handed over.

use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use nephila_core::spider::answer;
use nephila_core::spider::coding::Codings;
use nephila_core::spider::{Outcome, Settings};
use nephila_core::store::{Exchange, Notes, Payload, Truncation};
use sha1::{Digest, Sha1};
use tokio::time::{Instant, timeout_at};

use super::{Answered, Inner, Request, now};
use crate::body::{Body, Spool};
use crate::decode::{self, Note, Stop};
use crate::decoders::{DECODE_CPU_MAX, thread_cpu};
use crate::fetched::Fetched;
use crate::tee::Witness;

/// Reads the response to its end and fills in the result.
pub(crate) async fn receive(
    inner: &Inner,
    request: &Request,
    answered: Answered,
    deadline: Instant,
    fetched: &mut Fetched,
) {
    let Answered { connection, response, answer, asked, sent, proof, wanted } = answered;
    let is_h2 = connection.is_h2();
    let (parts, incoming) = response.into_parts();
    fetched.outcome = answer.outcome;
    fetched.detail.clear();
    fetched.status = Some(parts.status.as_u16());
    fetched.protocol = Some(match parts.version {
        http::Version::HTTP_2 => "h2",
        http::Version::HTTP_10 => "http/1.0",
        _ => "http/1.1",
    });
    fetched.retry_after = answer::retry_after(&parts.headers, now());
    fetched.redirect = answer.redirect;
    fetched.fields = parts.headers;
    let fields = &fetched.fields;
    let (request_head, response_head) = if is_h2 {
        (h2_request_head(request, inner, &proof), h2_response_head(parts.status, fields))
    } else {
        let mut seen = connection.witness.seen();
        (std::mem::take(&mut seen.request), seen.scan.take_head())
    };
    fetched.head_bytes = response_head.len() as u64;
    if !answer.keep {
        return;
    }

    let codings = Codings::parse(
        fields.get_all(header::CONTENT_ENCODING).iter().map(|v| v.as_bytes()),
        inner.settings.codings_max,
    );
    let coded = codings.as_ref().is_ok_and(|codings| !codings.undo.is_empty());
    if codings.as_ref().is_ok_and(|codings| codings.ignored > 0) {
        fetched.decoding = Some(Note::Unknown);
    }
    let keep_body = request.keep.exchange || request.keep.decoded || coded;
    let began = Instant::now();
    fetched.timings.starts.body = Some(inner.after_begin(deadline, began));
    let limits = Limits::of(request, &inner.settings);
    let digest = request.keep.sha1;
    let read = read_body(inner, incoming, &connection.witness, deadline, limits, keep_body, digest).await;
    fetched.timings.body = Some(began.elapsed());
    fetched.body_bytes = read.bytes;
    fetched.decoded_bytes = read.bytes;
    fetched.sha1 = read.sha1;
    fetched.truncated = read.truncated;
    if let Some(outcome) = read.outcome
        && (is_page(fetched.outcome) || outcome == Outcome::LocalDisk)
    {
        fetched.outcome = outcome;
    }
    fetched.detail = read.detail;
    if is_h2 && read.broke_h2 {
        // The page is cut and will be requested again. Over HTTP/2 it would be cut again, for ever.
        inner.remember_h1_only(&request.url);
    }

    let declared = content_length(fields);
    let extra = {
        let seen = connection.witness.seen();
        let bodyless = asked.head_only || matches!(parts.status.as_u16(), 204 | 304);
        let after = seen.scan.bytes_after();
        !is_h2 && (bodyless && after > 0 || declared.is_some_and(|length| !bodyless && after > length))
    };
    let (address, proxied, tls) = (connection.address, connection.proxied, connection.tls.clone());
    if answer.reusable && read.whole && !extra {
        inner.keep(&request.url, connection);
    }

    let body = read.body.map(Spool::finish);
    let body = match (codings, body) {
        (Err(_), body) if read.bytes > 0 => {
            if is_page(fetched.outcome) {
                fetched.outcome = Outcome::DecodeChain;
            }
            body
        }
        (Ok(codings), Some(body)) if coded && read.bytes > 0 && !asked.head_only => {
            let host = request.url.host_str();
            let (body, done) = undo(inner, host, codings, body, deadline, limits, request.keep.decoded).await;
            match done {
                Some((decoded, bytes)) => {
                    fetched.decoded_bytes = decoded.bytes;
                    if decoded.note != Note::Whole || fetched.decoding.is_none() {
                        fetched.decoding = Some(decoded.note);
                    }
                    fetched.decoded = bytes;
                    match decoded.note {
                        Note::Limit | Note::Window | Note::Work if is_page(fetched.outcome) => {
                            fetched.outcome = Outcome::DecodeLimit;
                            fetched.detail = match decoded.note {
                                Note::Window => "the coding wants a larger window than it gets".into(),
                                Note::Work => "decoding takes more work than one body gets".into(),
                                _ => format!("more than {} bytes after decoding", limits.decoded),
                            };
                        }
                        Note::Time if is_page(fetched.outcome) => {
                            fetched.outcome = Outcome::CutTime;
                            fetched.detail = "the whole fetch took too long: it was being decoded".into();
                        }
                        // The framing is intact, but the server or a hop before it lost the rest: half a page is
                        // incomplete.
                        Note::Cut => fetched.truncated = fetched.truncated.or(Some(Truncation::Disconnect)),
                        _ => {}
                    }
                }
                None if is_page(fetched.outcome) => {
                    fetched.outcome = Outcome::CutTime;
                    fetched.detail = "the whole fetch took too long: it waited to be decoded".into();
                }
                None => {}
            }
            body
        }
        (_, body) => {
            if request.keep.decoded {
                fetched.decoded.clone_from(&body);
            }
            body
        }
    };

    if request.keep.exchange
        && let Some(body) = body
    {
        let mut protocols: Vec<&'static str> = fetched.protocol.into_iter().collect();
        protocols.extend(tls.as_ref().map(|tls| tls.version));
        let mut notes = Notes::from([("outcome", fetched.outcome.name())]);
        if let Some(wrong) = tls.as_ref().and_then(|tls| tls.certificate) {
            notes.push("certificate", wrong.name());
        }
        if let Some(note) = fetched.decoding {
            notes.push("decoding", note.as_str());
        }
        // The signature is removed from the request record like all credentials; the note that one was sent is not.
        if !proof.is_empty() {
            notes.push("signature", "sent");
        } else if wanted.is_some() {
            notes.push("signature", "wanted");
        }
        fetched.exchange = Some(Exchange {
            url: request.url.as_str().to_owned(),
            started: inner.date_of(sent),
            elapsed_ms: 0,
            address: (!proxied).then_some(address.ip()),
            protocols,
            request_head: request_head.into(),
            response_head: response_head.into(),
            body: Box::new(body),
            truncated: fetched.truncated,
            notes,
            text: "".into(),
            media: None,
        });
    }
}

/// See [`super::Spider::decoded`].
pub(super) async fn decoded(
    inner: &Inner,
    request: &Request,
    fields: &http::HeaderMap,
    body: &Body,
) -> Option<Body> {
    let values = fields.get_all(header::CONTENT_ENCODING).iter().map(|value| value.as_bytes());
    let codings = Codings::parse(values, inner.settings.codings_max).ok()?;
    if codings.undo.is_empty() || body.len() == 0 {
        return Some(body.clone());
    }
    let deadline = Instant::now() + inner.settings.total_timeout;
    let limits = Limits::of(request, &inner.settings);
    let (_, done) = undo(inner, request.url.host_str(), codings, body.clone(), deadline, limits, true).await;
    done.and_then(|(_, bytes)| bytes)
}

/// Whether the body is the requested page. Of a redirect or a 404 the status matters, not how its body ended.
fn is_page(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Fetched
            | Outcome::MultipleChoices
            | Outcome::CutLength
            | Outcome::CutTime
            | Outcome::CutDisconnect
    )
}

/// Size limits of a body.
#[derive(Clone, Copy)]
struct Limits {
    raw: u64,
    decoded: u64,
}

impl Limits {
    fn of(request: &Request, settings: &Settings) -> Self {
        let own = request.body_bytes_max.unwrap_or(u64::MAX);
        Limits { raw: settings.body_bytes_max.min(own), decoded: settings.decoded_bytes_max.min(own) }
    }
}

/// Result of reading a body.
struct Read {
    body: Option<Spool>,
    bytes: u64,
    sha1: Option<[u8; 20]>,
    truncated: Option<Truncation>,
    outcome: Option<Outcome>,
    detail: String,
    whole: bool,
    /// Over HTTP/2: the server broke its rules inside the body.
    broke_h2: bool,
}

async fn read_body(
    inner: &Inner,
    mut incoming: Incoming,
    witness: &Witness,
    deadline: Instant,
    limits: Limits,
    keep: bool,
    digest: bool,
) -> Read {
    let settings = &inner.settings;
    let mut read = Read {
        body: keep.then(|| Spool::new(inner.budget.clone(), incoming.size_hint().exact())),
        bytes: 0,
        sha1: None,
        truncated: None,
        outcome: None,
        detail: String::new(),
        whole: false,
        broke_h2: false,
    };
    let mut sha1 = digest.then(Sha1::new);
    let mut speed = Speed::new(settings);
    let cut = |read: &mut Read, truncation: Truncation, outcome: Outcome, detail: String| {
        read.truncated = Some(truncation);
        read.outcome = Some(outcome);
        read.detail = detail;
    };
    while !incoming.is_end_stream() {
        let idle = Instant::now() + settings.body_idle_timeout;
        let until = idle.min(deadline).min(speed.next_check());
        let frame = match timeout_at(until, incoming.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                read.broke_h2 = crate::error::of_http2(&error).1.wants_h1 || witness.seen().fault.is_some();
                cut(
                    &mut read,
                    Truncation::Disconnect,
                    Outcome::CutDisconnect,
                    crate::error::describe(&error),
                );
                break;
            }
            Err(_) => {
                let now = Instant::now();
                let why = if now >= deadline {
                    "the whole fetch took too long"
                } else if now >= idle {
                    "the body was silent for too long"
                } else if speed.too_slow(now) {
                    "the body was slower than the minimum speed"
                } else {
                    continue;
                };
                cut(&mut read, Truncation::Time, Outcome::CutTime, why.into());
                break;
            }
        };
        let Ok(mut data) = frame.into_data() else { continue };
        witness.frames_earned(data.len());
        let room = limits.raw - read.bytes;
        let over = data.len() as u64 > room;
        if over {
            data.truncate(room as usize);
        }
        read.bytes += data.len() as u64;
        speed.count(data.len());
        if let Some(sha1) = &mut sha1 {
            sha1.update(&data);
        }
        if let Some(Err(error)) = read.body.as_mut().map(|body| body.push(&data)) {
            cut(&mut read, Truncation::Length, Outcome::LocalDisk, format!("a temporary file: {error}"));
            break;
        }
        if over {
            cut(&mut read, Truncation::Length, Outcome::CutLength, format!("more than {} bytes", limits.raw));
            break;
        }
        let now = Instant::now();
        if now >= deadline || speed.too_slow(now) {
            cut(&mut read, Truncation::Time, Outcome::CutTime, "the whole body took too long".into());
            break;
        }
    }
    read.whole = read.truncated.is_none();
    read.sha1 = sha1.map(|sha1| sha1.finalize().into());
    read
}

/// The minimum speed, measured window by window.
struct Speed {
    window: Duration,
    bytes_min: u64,
    since: Instant,
    bytes: u64,
}

impl Speed {
    fn new(settings: &Settings) -> Self {
        let bytes_min = settings.speed_min.saturating_mul(settings.speed_window.as_millis() as u64) / 1_000;
        Speed { window: settings.speed_window, bytes_min, since: Instant::now(), bytes: 0 }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    fn next_check(&self) -> Instant {
        self.since + self.window
    }

    fn too_slow(&mut self, now: Instant) -> bool {
        if now < self.next_check() {
            return false;
        }
        let slow = self.bytes < self.bytes_min;
        self.since = now;
        self.bytes = 0;
        slow
    }
}

/// Decodes the content codings: at once if that is little work, otherwise on a blocking thread when the host gets its
/// turn. There decoding ends at the deadline, or when the CPU limit is reached.
async fn undo(
    inner: &Inner,
    host: &str,
    codings: Codings,
    body: Body,
    deadline: Instant,
    limits: Limits,
    keep: bool,
) -> (Option<Body>, Option<(decode::Decoded, Option<Body>)>) {
    let budget = inner.budget.clone();
    let at_once = body.in_memory().and_then(|coded| decode::at_once(&codings, coded, limits.decoded));
    if let Some(bytes) = at_once {
        let decoded = decode::Decoded { bytes: bytes.len() as u64, note: Note::Whole };
        let mut kept = keep.then(|| Spool::new(budget, Some(decoded.bytes)));
        let done = kept.as_mut().map_or(Ok(()), |kept| kept.push(&bytes));
        return (Some(body), done.ok().map(|()| (decoded, kept.map(Spool::finish))));
    }
    let Ok(turn) = timeout_at(deadline, inner.decoders.turn(host)).await else {
        return (Some(body), None);
    };
    let task = tokio::task::spawn_blocking(move || {
        let began = thread_cpu();
        let spent = || thread_cpu().saturating_sub(began);
        let stop = || match spent() {
            _ if Instant::now() >= deadline => Stop::Time,
            cpu if cpu > DECODE_CPU_MAX => Stop::Work,
            _ => Stop::GoOn,
        };
        let mut kept = keep.then(|| Spool::new(budget, None));
        let mut nowhere = std::io::sink();
        let sink: &mut dyn std::io::Write = match &mut kept {
            Some(kept) => kept,
            None => &mut nowhere,
        };
        let decoded = decode::decode(&codings, || body.reader(), limits.decoded, &stop, sink);
        turn.ended(spent());
        (body, decoded.ok().map(|decoded| (decoded, kept.map(Spool::finish))))
    });
    match task.await {
        Ok((body, done)) => (Some(body), done),
        // The runtime is going down.
        Err(_) => (None, None),
    }
}

fn content_length(fields: &http::HeaderMap) -> Option<u64> {
    if fields.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.split(',').next()?.trim().parse().ok()
}

/// HTTP/2 has no text head; this is the same request in HTTP/1.1 syntax.
fn h2_request_head(request: &Request, inner: &Inner, proof: &[(HeaderName, HeaderValue)]) -> Vec<u8> {
    let method = if request.head_only { "HEAD" } else { "GET" };
    let mut head = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\n",
        request.url.path_and_query(),
        request.url.authority()
    )
    .into_bytes();
    for (name, value) in inner.common_fields().iter().chain(&request.fields).chain(proof) {
        push_field(&mut head, name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

pub(super) fn h2_response_head(status: http::StatusCode, fields: &http::HeaderMap) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default())
            .into_bytes();
    for (name, value) in fields {
        push_field(&mut head, name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn push_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}
