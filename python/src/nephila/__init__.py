"""Reads crawls of Nephila, and is a client of its nodes.

    crawl = nephila.open("docs")                   # a folder, or s3://BUCKET/PREFIX
    crawl.captures(status=404, columns=["url"])    # a table of Arrow
    crawl.read("https://docs.example.org/").text   # a stored page

    node = nephila.Client("http://127.0.0.1:6374")
    node.explain("https://docs.example.org/x")["because"]
"""

from ._capture import HTTP_HEAD_BYTES_MAX, Capture, capture_of
from ._client import (
    Added,
    Client,
    Download,
    Event,
    Events,
    Explained,
    Feed,
    Host,
    Poll,
    Refused,
    Robots,
    Stats,
    Story,
)
from ._crawl import Crawl, open
from ._decode import BODY_BYTES_MAX
from ._error import ApiError, Damaged, Error, MissingPackage, NotFound, TooLarge, Unreachable
from ._headers import Headers
from ._index import Place
from ._surt import surt
from ._usage import USAGE_COLUMNS, Use, allows, usage_filter
from ._warc import HEAD_BYTES_MAX, RECORD_BYTES_MAX, Record

__version__ = "0.1.0"

__all__ = [
    "BODY_BYTES_MAX",
    "HEAD_BYTES_MAX",
    "HTTP_HEAD_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "USAGE_COLUMNS",
    "Added",
    "ApiError",
    "Capture",
    "Client",
    "Crawl",
    "Damaged",
    "Download",
    "Error",
    "Event",
    "Events",
    "Explained",
    "Feed",
    "Headers",
    "Host",
    "MissingPackage",
    "NotFound",
    "Place",
    "Poll",
    "Record",
    "Refused",
    "Robots",
    "Stats",
    "Story",
    "TooLarge",
    "Unreachable",
    "Use",
    "allows",
    "capture_of",
    "open",
    "surt",
    "usage_filter",
]
