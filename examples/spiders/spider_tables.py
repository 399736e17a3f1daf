"""The frozen tables of version 1, and the record that is built with them. Not run by itself: spider.py imports it."""
import struct

OUTCOMES = """ok not-modified redirect multiple-choices cut-length cut-time cut-disconnect decode-limit decode-chain
not-found gone unauthorized payment-required forbidden legal challenged client-error rate-limited unavailable
server-error status-unknown misdirected redirect-bad-location redirect-scheme redirect-loop redirect-limit cookie-wall
out-of-scope robots-denied robots-unreachable url-bad url-bad-host url-too-long url-scheme port-denied address-private
dns-nxdomain dns-nodata dns-servfail dns-refused dns-timeout dns-truncated dns-cname-loop dns-null-address
dns-bad-answer dns-unreachable connect-refused connect-timeout connect-unreachable local-files local-ports local-disk
proxy-failed tls-expired tls-untrusted tls-name tls-certificate tls-version tls-timeout tls-alert tls-closed
tls-protocol write-timeout head-timeout total-timeout reset empty-reply head-too-large informational-flood
bad-status-line bad-header bad-framing transfer-coding unexpected-upgrade unexpected-not-modified unexpected-partial
h2-protocol h2-reset h2-goaway cancelled limit-reached no-contact crashed stop-list not-own-site read-timeout
spider-lost""".split()  # in order, from 0
STATUSES = [None, *range(100, 104), *range(200, 209), 226, *range(300, 309), *range(400, 419), *range(421, 427), 428,
            429, 431, 451, *range(500, 509), 510, 511]
BY_STATUS = {  # the status, or else its first digit
    2: "ok", 4: "client-error", 5: "server-error", 101: "unexpected-upgrade", 206: "unexpected-partial",
    300: "multiple-choices", 301: "redirect", 302: "redirect", 303: "redirect", 304: "unexpected-not-modified",
    307: "redirect", 308: "redirect", 401: "unauthorized", 402: "payment-required", 403: "forbidden", 404: "not-found",
    410: "gone", 421: "misdirected", 429: "rate-limited", 451: "legal", 503: "unavailable"}
BY_ERROR = {  # the first that occurs in the names of an exception's classes or in its text
    "has expired": "tls-expired", "self-signed": "tls-untrusted", "self signed": "tls-untrusted",
    "unable to get": "tls-untrusted", "mismatch, cert": "tls-name", "SSLCertVerificationError": "tls-certificate",
    "PROTOCOL_VERSION": "tls-version", "UNSUPPORTED_PROTOCOL": "tls-version", "ALERT": "tls-alert",
    "SSLEOFError": "tls-closed", "SSLZeroReturnError": "tls-closed", "SSLError": "tls-protocol",
    "RemoteDisconnected": "empty-reply", "BadStatusLine": "bad-status-line", "UnknownProtocol": "bad-status-line",
    "HTTPException": "head-too-large", "ConnectionRefusedError": "connect-refused", "ConnectionError": "reset",
    "Too many open files": "local-files", "Cannot assign": "local-ports", "OSError": "connect-unreachable",
    "UnicodeError": "url-bad-host", "ValueError": "url-bad"}


def outcome_of_status(status):
    """Name the outcome that a status means as long as the body is whole."""
    return BY_STATUS.get(status) or BY_STATUS.get(status // 100, "status-unknown")


def outcome_of_error(error, stage):
    """Name the outcome of an exception. The stage is connect, tls, write, head or read."""
    if isinstance(error, TimeoutError):
        return stage + "-timeout"
    text = " ".join(kind.__name__ for kind in type(error).__mro__) + f" {error}"
    return next((outcome for part, outcome in BY_ERROR.items() if part in text), "crashed")


def record(doc, outcome, status, ms, url, new_url="", data=b""):
    """Return the bytes of a record. The status is None if there was no response."""
    url, new_url, number = url.encode("ascii"), new_url.encode("ascii"), OUTCOMES.index(outcome)
    http_number = STATUSES.index(status) if status in STATUSES else 255
    head = doc, number < 5, number, http_number, 0, ms, len(url), len(new_url), len(data)  # 0 to 4 are the successes
    return struct.pack(">I4BIHHI", *head) + url + new_url + data
