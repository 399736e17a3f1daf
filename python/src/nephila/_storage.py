"""Files of a crawl: in a folder, or in an object store through `pyarrow.fs`.

Invariant: a file is read in pieces of a limited size; no file is read whole.
"""

from __future__ import annotations

import os
import posixpath
import urllib.parse
from dataclasses import dataclass
from typing import Any, Protocol

from ._error import Error, NotFound
from ._packages import load


@dataclass(frozen=True)
class Entry:
    """A name in a folder."""

    name: str
    is_dir: bool


class File(Protocol):
    """An open file. Several threads may read at once."""

    name: str
    #: Bytes that one request should read.
    chunk: int

    def size(self) -> int: ...
    def read_at(self, offset: int, length: int) -> bytes: ...


class Storage(Protocol):
    """The folder of a crawl. Paths are relative, with slashes."""

    def shown(self, path: str) -> str: ...
    def list(self, path: str) -> list[Entry]: ...
    def open(self, path: str) -> File: ...
    def dataset_source(self, path: str) -> tuple[Any, str]: ...
    def inside(self, path: str) -> Storage: ...


class _LocalFile:
    chunk = 64 << 10

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            self._file = open(path, "rb", buffering=0)
        except FileNotFoundError as error:
            raise NotFound(f"there is no {path}") from error
        except OSError as error:
            raise Error(f"{path}: {error.strerror or error}") from error

    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), length, offset)
        except (OSError, OverflowError) as error:
            raise Error(f"{self.name}: {error}") from error

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


class LocalStorage:
    """A folder of this machine."""

    def __init__(self, root: str) -> None:
        self._root = root

    def shown(self, path: str) -> str:
        return os.path.join(self._root, path)

    def list(self, path: str) -> list[Entry]:
        try:
            with os.scandir(self.shown(path)) as entries:
                found = [Entry(entry.name, entry.is_dir()) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Error(f"{self.shown(path)}: {error.strerror or error}") from error
        return sorted(found, key=lambda entry: entry.name)

    def open(self, path: str) -> File:
        return _LocalFile(self.shown(path))

    def dataset_source(self, path: str) -> tuple[Any, str]:
        fs = load("pyarrow.fs", "pyarrow", "reading tables")
        return fs.LocalFileSystem(), os.path.abspath(self.shown(path))

    def inside(self, path: str) -> Storage:
        return LocalStorage(self.shown(path))


class _ArrowFile:
    #: Requests to an object store are slow, so each asks for more.
    chunk = 1 << 20

    def __init__(self, filesystem: Any, path: str) -> None:
        self.name = path
        try:
            self._file = filesystem.open_input_file(path)
        except FileNotFoundError as error:
            raise NotFound(f"there is no {path}") from error
        except OSError as error:
            raise Error(f"{path}: {error}") from error

    def size(self) -> int:
        return int(self._file.size())

    def read_at(self, offset: int, length: int) -> bytes:
        size = self.size()
        if offset >= size:
            return b""
        try:
            piece: bytes = self._file.read_at(min(length, size - offset), offset)
        except OSError as error:
            raise Error(f"{self.name}: {error}") from error
        return piece


class ArrowStorage:
    """A folder of a filesystem of pyarrow, such as a prefix of an S3 bucket."""

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.strip("/") if not root.startswith("/") else root.rstrip("/")

    def shown(self, path: str) -> str:
        return posixpath.join(self._root, path) if path else self._root

    def list(self, path: str) -> list[Entry]:
        fs = load("pyarrow.fs", "pyarrow", "an object store")
        selector = fs.FileSelector(self.shown(path), allow_not_found=True)
        try:
            found = self._filesystem.get_file_info(selector)
        except OSError as error:
            raise Error(f"{self.shown(path)}: {error}") from error
        entries = [Entry(info.base_name, info.type == fs.FileType.Directory) for info in found]
        return sorted(entries, key=lambda entry: entry.name)

    def open(self, path: str) -> File:
        return _ArrowFile(self._filesystem, self.shown(path))

    def dataset_source(self, path: str) -> tuple[Any, str]:
        return self._filesystem, self.shown(path)

    def inside(self, path: str) -> Storage:
        return ArrowStorage(self._filesystem, self.shown(path))


def open_storage(
    where: str | os.PathLike[str], filesystem: Any, endpoint: str | None, region: str | None
) -> Storage:
    """Return the storage at a path, a `file://` URL, an `s3://` URL, or a path of a given filesystem."""
    text = os.fspath(where)
    if filesystem is not None:
        return ArrowStorage(filesystem, text)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return LocalStorage(text)
    if scheme == "file":
        return LocalStorage(urllib.parse.unquote(urllib.parse.urlsplit(text).path))
    if scheme != "s3":
        raise Error(f"{scheme}:// is unknown: give a path, file://, s3://, or a filesystem of pyarrow")
    fs = load("pyarrow.fs", "pyarrow", "an object store")
    parts = urllib.parse.urlsplit(text)
    options: dict[str, Any] = {}
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        address = urllib.parse.urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        options = {"endpoint_override": address.netloc, "scheme": address.scheme}
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region:
        options["region"] = region
    elif endpoint:
        options["region"] = "us-east-1"
    return ArrowStorage(fs.S3FileSystem(**options), parts.netloc + urllib.parse.unquote(parts.path))


class Range:
    """Bytes of a file from an offset on, one after the other."""

    def __init__(self, file: File, offset: int, length: int | None = None) -> None:
        self._file = file
        self._at = offset
        self._end = None if length is None else offset + length
        self._ahead = b""

    def read(self, size: int) -> bytes:
        if not self._ahead:
            wanted = max(size, self._file.chunk)
            if self._end is not None:
                wanted = min(wanted, self._end - self._at)
            self._ahead = self._file.read_at(self._at, wanted) if wanted > 0 else b""
            self._at += len(self._ahead)
        piece, self._ahead = self._ahead[:size], self._ahead[size:]
        return piece
