//! Counts the work of decoding, layer by layer, and stops excessive work.
//!
//! A decoder may read for a long time without output: skippable frames, and members, blocks and metadata without
//! content. Its output alone is therefore no measure of its work. Each layer reads through a [`Metered`], which counts
//! the input. The copy loop counts the output of the last layer ([`Meter::gave`]).
//!
//! Invariants: no layer reads more than [`LAYER_BYTES_MAX`] bytes of an earlier layer's output (or the output limit, if
//! larger); no layer reads more than [`BARREN_BYTES_MAX`] in a row without output; the caller's `stop` is called every
//! [`LOOK_BYTES`].

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use super::Note;

/// Maximum output of one layer to the next, in bytes, unless the output limit is larger.
pub const LAYER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum input of a layer in a row without output. The tables and comments of honest streams are far shorter.
pub const BARREN_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of work, over all layers, between two calls of `stop`.
const LOOK_BYTES: u64 = 64 * 1024;

/// The caller's decision whether decoding continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Continue.
    GoOn,
    /// The work exceeds its limit ([`Note::Work`]).
    Work,
    /// The deadline has passed ([`Note::Time`]).
    Time,
}

/// The work of one decoding.
pub(super) struct Meter<'a> {
    layer_max: u64,
    stop: &'a dyn Fn() -> Stop,
    layers: RefCell<Vec<Layer>>,
    since_look: Cell<u64>,
    stopped: Cell<Option<Note>>,
}

#[derive(Clone, Copy, Default)]
struct Layer {
    /// Bytes read.
    read: u64,
    /// Bytes read since the last output.
    barren: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn new(layers: usize, limit: u64, stop: &'a dyn Fn() -> Stop) -> Rc<Meter<'a>> {
        Rc::new(Meter {
            layer_max: limit.max(LAYER_BYTES_MAX),
            stop,
            layers: RefCell::new(vec![Layer::default(); layers]),
            since_look: Cell::new(0),
            stopped: Cell::new(None),
        })
    }

    /// Why decoding was stopped, if stopped.
    pub(super) fn stopped(&self) -> Option<Note> {
        self.stopped.get()
    }

    /// Counts output of the last layer.
    pub(super) fn gave(&self, bytes: usize) -> Option<Note> {
        let mut layers = self.layers.borrow_mut();
        let end = layers.len();
        fruitful(&mut layers[..end]);
        drop(layers);
        self.look(bytes as u64);
        self.stopped()
    }

    /// Counts input of a layer.
    fn took(&self, layer: usize, bytes: usize) {
        let bytes = bytes as u64;
        let mut layers = self.layers.borrow_mut();
        let own = &mut layers[layer];
        own.read += bytes;
        own.barren += bytes;
        // The first layer reads the received body, which has a limit of its own.
        if own.barren > BARREN_BYTES_MAX || layer > 0 && own.read > self.layer_max {
            self.stopped.set(Some(Note::Work));
        }
        drop(layers);
        self.look(bytes);
    }

    /// Notes output of the layers before this one.
    fn is_given(&self, layer: usize) {
        fruitful(&mut self.layers.borrow_mut()[..layer]);
    }

    fn look(&self, bytes: u64) {
        let since = self.since_look.get() + bytes;
        if since < LOOK_BYTES {
            self.since_look.set(since);
            return;
        }
        self.since_look.set(0);
        match (self.stop)() {
            Stop::GoOn => {}
            Stop::Work => self.stopped.set(Some(Note::Work)),
            Stop::Time => self.stopped.set(Some(Note::Time)),
        }
    }
}

fn fruitful(layers: &mut [Layer]) {
    layers.iter_mut().for_each(|layer| layer.barren = 0);
}

/// The input of a layer, counted.
pub(super) struct Metered<'a> {
    inner: Box<dyn BufRead + 'a>,
    layer: usize,
    meter: Rc<Meter<'a>>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(inner: Box<dyn BufRead + 'a>, layer: usize, meter: Rc<Meter<'a>>) -> Metered<'a> {
        Metered { inner, layer, meter }
    }
}

impl BufRead for Metered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The decoder passes this error on; the note holds the reason.
        if self.meter.stopped().is_some() {
            return Err(io::Error::other("stopped"));
        }
        let piece = self.inner.fill_buf()?;
        if !piece.is_empty() {
            self.meter.is_given(self.layer);
        }
        Ok(piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.inner.consume(bytes);
        self.meter.took(self.layer, bytes);
    }
}

impl Read for Metered<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}
