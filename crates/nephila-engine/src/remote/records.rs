//! The store connections of spiders: records in, nothing out.
//!
//! Invariants: a record that its connection cuts off is dropped whole; all data that is held for fetches that have not
//! ended takes at most [`HELD_BYTES_MAX`] bytes; a record that comes slower than [`RATE_MIN`] ends its connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nephila_core::remote::desk::Received;
use nephila_core::remote::record::{Part, Reader, Record};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connections::Gate;
use super::{HELD_BYTES_MAX, Shared};

/// Minimum speed of a record in bytes a second, after [`GRACE`].
const RATE_MIN: u64 = 64_000;
/// Time that every record has.
const GRACE: Duration = Duration::from_secs(30);
/// Data is counted in pieces of this many bytes.
const PIECE: usize = 1 << 10;
const READ_BYTES: usize = 64 << 10;

/// The data of a record, which takes its part of [`HELD_BYTES_MAX`] while held.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) bytes: Bytes,
    /// Number of bytes over the limit that were dropped.
    pub(super) dropped: u32,
    _held: OwnedSemaphorePermit,
}

#[cfg(test)]
impl Data {
    pub(super) fn of(bytes: &'static [u8], dropped: u32, room: Arc<Semaphore>) -> Data {
        let held = room.try_acquire_owned().expect("there is room");
        Data { bytes: Bytes::from_static(bytes), dropped, _held: held }
    }
}

/// Receives records from spiders.
pub(super) async fn serve(listener: TcpListener, gate: Gate, shared: Arc<Shared>, data_bytes_max: u32) {
    let room = Arc::new(Semaphore::new(HELD_BYTES_MAX / PIECE));
    // A single record must fit.
    let data_bytes_max = data_bytes_max.min((HELD_BYTES_MAX / 4) as u32);
    gate.accept(listener, "with records", move |stream, peer, permit| {
        let (shared, room) = (shared.clone(), room.clone());
        async move {
            let _permit = permit;
            if let Err(why) = receive(stream, &shared, &room, data_bytes_max).await {
                tracing::warn!(%peer, "records of {peer} are not read on: {why}");
            }
        }
    })
    .await;
}

/// A record whose data is coming.
struct Coming {
    record: Record,
    data: Vec<u8>,
    held: OwnedSemaphorePermit,
    until: Instant,
}

/// Reads the records of a connection until it ends.
async fn receive(
    mut stream: TcpStream,
    shared: &Shared,
    room: &Arc<Semaphore>,
    data_bytes_max: u32,
) -> Result<(), String> {
    let mut reader = Reader::new(data_bytes_max);
    let mut coming: Option<Coming> = None;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = read(&mut stream, &mut buffer, &reader, coming.as_ref()).await?;
        if count == 0 {
            return match reader.is_between_records() {
                true => Ok(()),
                false => Err("the connection ended within a record, which is dropped".into()),
            };
        }
        let mut bytes = &buffer[..count];
        while let Some(part) = reader.read(&mut bytes).map_err(|error| error.to_string())? {
            match part {
                Part::Begin(record) => coming = Some(begin(record, room, data_bytes_max).await),
                Part::Data(data) => coming.iter_mut().for_each(|coming| coming.data.extend_from_slice(data)),
                Part::End { dropped } => {
                    if let Some(Coming { record, data, held, .. }) = coming.take() {
                        let body = Data { bytes: data.into(), dropped, _held: held };
                        shared.with(|state, now| state.desk.record(now, Received { record, body }));
                    }
                }
            }
        }
    }
}

/// Reads some bytes. Between records a spider may be silent for as long as it likes.
async fn read(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    reader: &Reader,
    coming: Option<&Coming>,
) -> Result<usize, String> {
    let until = match coming {
        Some(coming) => coming.until,
        None if reader.is_between_records() => {
            return stream.read(buffer).await.map_err(|error| error.to_string());
        }
        None => Instant::now() + GRACE,
    };
    match tokio::time::timeout_at(until, stream.read(buffer)).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!("a record came slower than {RATE_MIN} bytes a second")),
    }
}

/// Waits for room for the data of a record.
async fn begin(record: Record, room: &Arc<Semaphore>, data_bytes_max: u32) -> Coming {
    let kept = record.data_len.min(data_bytes_max) as usize;
    let pieces = u32::try_from(kept.div_ceil(PIECE)).unwrap_or(u32::MAX);
    let held = room.clone().acquire_many_owned(pieces).await.expect("never closed");
    let allowed = GRACE + Duration::from_secs(u64::from(record.data_len) / RATE_MIN);
    Coming { record, data: Vec::with_capacity(kept.min(READ_BYTES)), held, until: Instant::now() + allowed }
}
