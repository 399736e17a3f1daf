//! Maps errors of sockets, TLS and HTTP libraries to outcomes. The one place that inspects errors of other libraries.

use std::error::Error as StdError;
use std::io;

use nephila_core::spider::{Outcome, head};
use rustls::{AlertDescription, CertificateError, PeerMisbehaved};

use crate::tee::Witness;

/// A socket that could not be made, bound or connected.
pub(crate) fn of_socket(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => return Outcome::LocalFiles,
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN) => return Outcome::LocalPorts,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Outcome::ConnectRefused,
        io::ErrorKind::TimedOut => Outcome::ConnectTimeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Outcome::Reset,
        _ => Outcome::ConnectUnreachable,
    }
}

/// A TLS handshake that failed.
pub(crate) fn of_handshake(error: &io::Error) -> Outcome {
    let Some(tls) = tls_of(error) else {
        return match error.kind() {
            io::ErrorKind::TimedOut => Outcome::TlsTimeout,
            _ => Outcome::TlsClosed,
        };
    };
    of_tls(tls)
}

fn tls_of(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// A TLS error about a certificate or the peer.
pub(crate) fn of_tls(error: &rustls::Error) -> Outcome {
    match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Outcome::TlsExpired,
            CertificateError::UnknownIssuer => Outcome::TlsUntrusted,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Outcome::TlsName
            }
            _ => Outcome::TlsCertificate,
        },
        rustls::Error::NoCertificatesPresented => Outcome::TlsCertificate,
        rustls::Error::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity,
        )
        | rustls::Error::PeerIncompatible(_)
        // The server chose a cipher suite that we did not offer, such as RC4, because it knows no other.
        | rustls::Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedCipherSuite) => Outcome::TlsVersion,
        rustls::Error::AlertReceived(AlertDescription::CloseNotify) => Outcome::TlsClosed,
        rustls::Error::AlertReceived(_) => Outcome::TlsAlert,
        _ => Outcome::TlsProtocol,
    }
}

/// Retry hints from an HTTP/2 error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) wants_h1: bool,
    pub(crate) unprocessed: bool,
}

/// A request that got no usable head over HTTP/1.1.
pub(crate) fn of_http1(error: &hyper::Error, witness: &Witness) -> Outcome {
    let seen = witness.seen();
    if let Some(fault) = seen.fault {
        return fault.outcome();
    }
    if error.is_parse_too_large() {
        return Outcome::HeadTooLarge;
    }
    if error.is_parse() {
        return head::diagnose(seen.scan.head());
    }
    // With TLS 1.3 a server may refuse us, for want of a client certificate, after our side of the handshake is done.
    if let Some(tls) = find::<io::Error>(error).and_then(tls_of) {
        return of_tls(tls);
    }
    if !seen.scan.is_empty() && !seen.scan.is_done() {
        // The connection ended inside the head. Without a status line it was never HTTP.
        return match head::diagnose(seen.scan.head()) {
            Outcome::BadStatusLine
                if !b"HTTP/1.".starts_with(&seen.scan.head()[..seen.scan.head().len().min(7)]) =>
            {
                Outcome::BadStatusLine
            }
            _ => of_silence(seen.error),
        };
    }
    of_silence(seen.error)
}

fn of_silence(error: Option<io::ErrorKind>) -> Outcome {
    match error {
        Some(kind) if is_broken(kind) => Outcome::Reset,
        _ => Outcome::EmptyReply,
    }
}

/// Whether the connection broke. A timeout from the kernel means a dead path, not a slow server.
fn is_broken(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    matches!(
        kind,
        BrokenPipe | ConnectionAborted | ConnectionReset | HostUnreachable | NetworkUnreachable | TimedOut
    )
}

/// A request that got no usable head over HTTP/2.
pub(crate) fn of_http2(error: &hyper::Error) -> (Outcome, Hints) {
    let Some(h2) = find::<h2::Error>(error) else {
        let io = find::<io::Error>(error).map(io::Error::kind);
        let outcome = match io {
            Some(kind) if is_broken(kind) => Outcome::Reset,
            _ => Outcome::EmptyReply,
        };
        return (outcome, Hints::default());
    };
    match h2.reason() {
        Some(h2::Reason::HTTP_1_1_REQUIRED) => {
            (Outcome::H2Reset, Hints { wants_h1: true, unprocessed: true })
        }
        Some(h2::Reason::REFUSED_STREAM) => (Outcome::H2Goaway, Hints { wants_h1: false, unprocessed: true }),
        _ if h2.is_go_away() && h2.is_remote() => {
            (Outcome::H2Goaway, Hints { wants_h1: false, unprocessed: true })
        }
        _ if h2.is_reset() && h2.is_remote() => (Outcome::H2Reset, Hints::default()),
        None if h2.is_io() => match h2.get_io().map(io::Error::kind) {
            Some(kind) if is_broken(kind) => (Outcome::Reset, Hints::default()),
            _ => (Outcome::EmptyReply, Hints::default()),
        },
        _ => (Outcome::H2Protocol, Hints { wants_h1: true, unprocessed: false }),
    }
}

/// The first error of this type in the chain.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// An error and its causes in one line, for people.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
