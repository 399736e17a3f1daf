"""A crawl: its tables, its captures, its records.

The crawl is a folder (`nephila crawl -o DIR`), or the objects of a cluster in a bucket or a shared folder
(`cluster.objects`): `archive/FILE` or `archive/NODE/FILE`, `indexes/index.cdxj`, `table/captures`, `table/links`.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Literal

from ._capture import HTTP_HEAD_BYTES_MAX, Capture, split, warc_time
from ._decode import BODY_BYTES_MAX
from ._error import Damaged, Error, NotFound, TooLarge
from ._headers import Headers
from ._index import Place, digits_of, parse, search, time_of
from ._packages import load
from ._storage import ArrowStorage, File, Range, Storage, open_storage
from ._surt import surt
from ._usage import Row, Use, usage_filter
from ._warc import Reader, Record

#: Limit of the captures of one URL among which the best is searched.
CAPTURES_OF_URL_MAX = 100_000
#: Limit of a chain of revisits: in foreign archives a revisit may refer to a revisit.
REVISIT_HOPS_MAX = 4
#: Limit of the records behind a capture among which its main text is searched.
BESIDE_MAX = 8
#: Limit of a main text in bytes.
TEXT_BYTES_MAX = 16 << 20

_ENDINGS = (".warc.gz", ".warc.zst", ".warc")
_NODE = re.compile(r"-\d{17}-\d{5,}-(.+?)\.warc(?:\.gz|\.zst)?$")
_OPEN_FILES_MAX = 8
_SEARCHES_AT_ONCE = 16

Table = Literal["captures", "links"]


def open(
    where: str | os.PathLike[str],
    *,
    filesystem: Any = None,
    endpoint: str | None = None,
    region: str | None = None,
) -> Crawl:
    """Open a crawl.

    `where` is the folder of a crawl, or the `cluster.objects` of a cluster: `s3://BUCKET/PREFIX` or `file:///FOLDER`. If
    several clusters share the prefix, add the folder of one, `NAME-ID`. Keys for S3 come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`) or the usual files;
    `endpoint` is the URL of a service that is not Amazon's (or `AWS_ENDPOINT_URL`). With a `filesystem` of pyarrow, `where`
    is a path in that filesystem.
    """
    return Crawl(open_storage(where, filesystem, endpoint, region))


class Crawl:
    """A crawl that was opened with `nephila.open`. Nothing is written."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.Lock()
        if not _is_crawl(storage):
            # The objects of a cluster lie in a folder with its name and its id.
            inside = [it.name for it in storage.list("") if it.is_dir and _is_crawl(storage.inside(it.name))]
            if not inside:
                raise NotFound(f"{storage.shown('') or '.'} is no crawl: there is neither archive nor table")
            if len(inside) > 1:
                raise Error(f"{storage.shown('')} has several crawls, open one of them: {', '.join(inside)}")
            self._storage = storage.inside(inside[0])

    # Tables

    def dataset(self, table: Table = "captures") -> Any:
        """Return a table as a `pyarrow.dataset.Dataset`, which is read when it is scanned.

        `crawl` and, for captures, `subset` are partitions: a filter on them leaves out whole files.
        """
        pa = load("pyarrow", "pyarrow", "reading tables")
        dataset = load("pyarrow.dataset", "pyarrow", "reading tables")
        fs = load("pyarrow.fs", "pyarrow", "reading tables")
        filesystem, root = self._storage.dataset_source(f"table/{table}")
        try:
            found = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
            # A file under way has another ending.
            paths = sorted(info.path for info in found if info.base_name.endswith(".parquet"))
            if not paths:
                raise NotFound(
                    f"{root}: there are no tables. `nephila export parquet -o DIR` writes them; with tables.write = true "
                    "a crawl writes them itself, whenever an archive file is closed"
                )
            names = ["crawl", "subset"] if table == "captures" else ["crawl"]
            partitions = dataset.partitioning(pa.schema([(name, pa.string()) for name in names]), flavor="hive")
            return dataset.dataset(
                paths, format="parquet", filesystem=filesystem, partitioning=partitions, partition_base_dir=root
            )
        except (OSError, pa.ArrowInvalid) as error:
            raise Error(f"{root}: {error}") from error

    def captures(
        self,
        *,
        columns: Sequence[str] | None = None,
        url: str | None = None,
        host: str | None = None,
        domain: str | None = None,
        status: int | Sequence[int] | None = None,
        subset: str | None = None,
        mime: str | None = None,
        allowed: Use | None = None,
        filter: Any = None,
    ) -> Any:
        """Return captures as a `pyarrow.Table`.

        `host` is a host name, `domain` a registrable domain, `subset` is `warc`, `robotstxt` or `crawldiagnostics`, `mime`
        the detected media type, `allowed` a use that the sites do not forbid (see `allows`), `filter` an expression of
        pyarrow. All conditions must hold. Without `columns` the table has all of them.
        """
        wanted = _all_of(_conditions(url, host, domain, status, subset, mime, allowed), filter)
        return self._read_table("captures", columns, wanted)

    def rows(
        self,
        *,
        columns: Sequence[str] | None = None,
        url: str | None = None,
        host: str | None = None,
        domain: str | None = None,
        status: int | Sequence[int] | None = None,
        subset: str | None = None,
        mime: str | None = None,
        allowed: Use | None = None,
        filter: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """Return captures one by one, with the conditions of `captures`. Memory holds some batches, not the table."""
        pa = load("pyarrow", "pyarrow", "reading tables")
        wanted = _all_of(_conditions(url, host, domain, status, subset, mime, allowed), filter)
        try:
            batches = self.dataset("captures").to_batches(
                columns=None if columns is None else list(columns), filter=wanted, batch_size=1_024
            )
            for batch in batches:
                yield from batch.to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise Error(f"{self._storage.shown('table/captures')}: {error}") from error

    def links(
        self,
        *,
        columns: Sequence[str] | None = None,
        source: str | None = None,
        target: str | None = None,
        kind: str | Sequence[str] | None = None,
        filter: Any = None,
    ) -> Any:
        """Return links as a `pyarrow.Table`: from a page, to a page, of some kinds."""
        found = [_is("source", source), _is("target", target), _is("kind", kind)]
        return self._read_table("links", columns, _all_of(found, filter))

    def _read_table(self, table: Table, columns: Sequence[str] | None, wanted: Any) -> Any:
        pa = load("pyarrow", "pyarrow", "reading tables")
        try:
            return self.dataset(table).to_table(columns=None if columns is None else list(columns), filter=wanted)
        except (OSError, pa.ArrowInvalid) as error:
            raise Error(f"{self._storage.shown(f'table/{table}')}: {error}") from error

    # Captures

    def find(self, url: str) -> list[Place]:
        """Return the captures of a URL by the indexes, in the order of their times.

        Other spellings with the same key (`www.`, `https`) are among them. A file that the crawler still writes has no
        index; `Client` answers for such captures.
        """
        prefix = (surt(url) + " ").encode("utf-8", "surrogateescape")
        indexes = self._indexes()
        if isinstance(self._storage, ArrowStorage) and len(indexes) > 1:
            with ThreadPoolExecutor(_SEARCHES_AT_ONCE) as pool:
                found = list(pool.map(lambda path: self._search(path, prefix), indexes))
        else:
            found = [self._search(path, prefix) for path in indexes]
        # The merged index and the index of a file have the same lines.
        lines = sorted({line: path for path, lines in zip(indexes, found, strict=True) for line in lines}.items())
        if len(lines) > CAPTURES_OF_URL_MAX:
            raise TooLarge(f"{url} has more captures than CAPTURES_OF_URL_MAX ({CAPTURES_OF_URL_MAX})")
        return [parse(line, self._storage.shown(path)) for line, path in lines]

    def read(
        self, what: str | Row | Place, at: str | datetime | None = None, *, body_bytes_max: int = BODY_BYTES_MAX
    ) -> Capture:
        """Read a capture: of a URL (the latest, or the nearest to `at`), of a row of the table, or at a place.

        A row needs `warc_filename`, `warc_record_offset` and `warc_record_length`. `at` is a datetime or 4 to 14 digits,
        `YYYYMMDDhhmmss`. A revisit has the body of the record to which it refers. Bodies of more than `body_bytes_max`
        bytes, stored or decoded, are a `TooLarge` error.
        """
        place = self._place(what, at)
        limit = body_bytes_max + HTTP_HEAD_BYTES_MAX
        record, http, body = self._block(place, limit)
        first, origin = record, None
        for _ in range(REVISIT_HOPS_MAX):
            if record.get("WARC-Type") != "revisit":
                break
            origin = self._origin(record, place if origin is None else origin)
            record, origin_http, body = self._block(origin, limit)
            # The head of a 304 does not describe the page.
            if not http or http.split(b" ", 2)[1:2] == [b"304"]:
                http = origin_http
        else:
            raise Damaged(f"{place.filename} at {place.offset}: more revisits than REVISIT_HOPS_MAX ({REVISIT_HOPS_MAX})")
        url = (first.get("WARC-Target-URI") or place.url).strip("<>")
        return Capture(url, warc_time(first), http, body, first, place, origin, body_bytes_max)

    def main_text(self, what: str | Row | Place | Capture, at: str | datetime | None = None) -> str | None:
        """Return the main text of a page, which the crawler extracted (`handler.text`); None if the archive has none."""
        capture = what if isinstance(what, Capture) else None
        place = capture.place if capture else self._place(what, at)  # type: ignore[arg-type]
        if place is None:
            raise Error("a capture of a node has no place; ask with its URL")
        if capture is None:
            reader = self._reader(place, whole=True)
            answer = reader.next()
            if answer is not None and answer.type == "revisit":
                place = self._origin(answer.headers, place)
        elif capture.origin is not None:
            place = capture.origin
        return self._text_at(place)

    def records(self, types: Iterable[str] | None = None) -> Iterator[Record]:
        """Return all WARC records, or those of some types, file by file in the order of the archive.

        Blocks are streamed: read a block before you take the next record. Only closed files are read.
        """
        wanted = None if types is None else set(types)
        for path in self.warc_files():
            reader = Reader(Range(self._storage.open(path), 0).read, 0, posixpath.basename(path))
            while (record := reader.next()) is not None:
                if wanted is None or record.type in wanted:
                    yield record

    def warc_files(self) -> list[str]:
        """Return the paths of the closed archive files below the crawl, by name."""
        return sorted(self._archive(_ENDINGS), key=lambda path: (posixpath.basename(path), path))

    # Parts

    def _text_at(self, place: Place) -> str | None:
        reader = self._reader(place, whole=True)
        answer = reader.next()
        if answer is None:
            raise Damaged(f"{place.filename}: no record at offset {place.offset}")
        if self._has_derived():
            # `nephila extract` makes one text for all captures of a URL with the same payload.
            digest = answer.headers.get("WARC-Payload-Digest")
            same = [it for it in self.find(answer.url or "") if it.url == answer.url and it.digest == digest]
            ids = (self._record_id(it) for it in same if it.mime != "warc/revisit")
            for record_id in (answer.id, *(() if digest is None else ids)):
                derived = self._derived(record_id)
                if derived is not None:
                    return derived
        for _ in range(BESIDE_MAX):
            record = reader.next()
            if record is None or record.type in ("response", "revisit", "warcinfo"):
                return None
            refers = (record.headers.get("WARC-Refers-To") or "").strip("<>")
            if record.type == "conversion" and refers == answer.id:
                return record.read(TEXT_BYTES_MAX).decode("utf-8", "replace")
        return None

    def _record_id(self, place: Place) -> str:
        record = self._reader(place, whole=False).next()
        return "" if record is None else record.id

    def _has_derived(self) -> bool:
        return any(it.name == "derived.idx" for it in self._storage.list("indexes"))

    def _archive(self, endings: tuple[str, ...]) -> list[str]:
        """Return the files in `archive` and in its folders, one for each node, with these endings."""
        paths: list[str] = []
        for entry in self._storage.list("archive"):
            path = f"archive/{entry.name}"
            if entry.is_dir:
                below = self._storage.list(path)
                paths += [f"{path}/{it.name}" for it in below if not it.is_dir and it.name.endswith(endings)]
            elif entry.name.endswith(endings):
                paths.append(path)
        return paths

    def _indexes(self) -> list[str]:
        merged = [f"indexes/{it.name}" for it in self._storage.list("indexes") if it.name == "index.cdxj"]
        return merged + self._archive((".cdxj",))

    def _search(self, path: str, prefix: bytes) -> list[bytes]:
        lines: list[bytes] = []
        for line in search(self._storage.open(path), prefix):
            lines.append(line)
            if len(lines) > CAPTURES_OF_URL_MAX:
                raise TooLarge(f"{path}: more captures of a URL than CAPTURES_OF_URL_MAX ({CAPTURES_OF_URL_MAX})")
        return lines

    def _place(self, what: str | Row | Place, at: str | datetime | None) -> Place:
        if isinstance(what, str):
            return self._nearest(what, at)
        if isinstance(what, Place):
            return what
        try:
            name, offset, length = (what[f"warc_{part}"] for part in ("filename", "record_offset", "record_length"))
        except (KeyError, IndexError, TypeError):
            raise Error(
                "the row has no place: select warc_filename, warc_record_offset and warc_record_length"
            ) from None
        try:
            url = what["url"]
        except (KeyError, IndexError):
            url = ""
        return Place(str(url), time_of("1970"), str(name), int(offset), int(length))

    def _nearest(self, url: str, at: str | datetime | None) -> Place:
        wanted = None if at is None else time_of(digits_of(at))
        found = self.find(url)
        if not found:
            raise NotFound(f"there is no capture of {url}")

        def rank(place: Place) -> tuple[bool, float]:
            # The very URL goes before other spellings; then the nearest, or the latest.
            far = -place.time.timestamp() if wanted is None else abs((place.time - wanted).total_seconds())
            return place.url != url, far

        return min(reversed(found), key=rank)

    def _file(self, name: str) -> File:
        # A name in an index is only a name, even in a foreign index.
        name = posixpath.basename(name.replace("\\", "/"))
        if not name:
            raise NotFound("a file without a name")
        with self._lock:
            file = self._files.get(name)
            if file is not None:
                self._files.move_to_end(name)
                return file
        file = self._open_named(name)
        with self._lock:
            self._files[name] = file
            while len(self._files) > _OPEN_FILES_MAX:
                self._files.popitem(last=False)
        return file

    def _open_named(self, name: str) -> File:
        known = _NODE.search(name)
        guesses = [f"archive/{known[1]}/{name}"] if known and isinstance(self._storage, ArrowStorage) else []
        for path in [*guesses, f"archive/{name}", f"archive/{name}.open", *self._below(name)]:
            try:
                return self._storage.open(path)
            except NotFound:
                continue
        raise NotFound(f"{self._storage.shown('archive')} has no {name}")

    def _below(self, name: str) -> Iterator[str]:
        for entry in self._storage.list("archive"):
            if entry.is_dir:
                yield f"archive/{entry.name}/{name}"

    def _reader(self, place: Place, whole: bool) -> Reader:
        # Indexes of plain files leave out the two line ends behind a record.
        length = None if whole else place.length + 4
        file = self._file(place.filename)
        return Reader(Range(file, place.offset, length).read, place.offset, place.filename)

    def _block(self, place: Place, limit: int) -> tuple[Headers, bytes, bytes]:
        record = self._reader(place, whole=False).next()
        if record is None:
            raise Damaged(f"{place.filename}: no record at offset {place.offset}")
        where = f"{place.filename} at {place.offset}"
        if place.url and record.url is not None and record.url != place.url:
            raise Damaged(f"{where}: the record is of {record.url[:200]}, not of {place.url[:200]}")
        http, body = split(record.type, record.read(limit), where)
        # Checksums stand at the end of a member.
        record.finish()
        return record.headers, http, body

    def _origin(self, revisit: Headers, place: Place) -> Place:
        """Return the place of the payload of a revisit."""
        url = (revisit.get("WARC-Refers-To-Target-URI") or revisit.get("WARC-Target-URI") or "").strip("<>")
        date = revisit.get("WARC-Refers-To-Date") or ""
        digest = revisit.get("WARC-Payload-Digest")
        try:
            time = time_of(re.sub(r"[^0-9]", "", date[:40])[:14])
        except ValueError:
            time = time_of("1970")
        best: tuple[bool, float] | None = None
        origin: Place | None = None
        for other in self.find(url):
            if other.mime == "warc/revisit" or (other.filename, other.offset) == (place.filename, place.offset):
                continue
            rank = (digest is not None and other.digest != digest, abs((other.time - time).total_seconds()))
            # Another payload is no substitute, unless the date identifies the record.
            if (rank[0] and rank[1] > 0) or (best is not None and rank >= best):
                continue
            best, origin = rank, other
        if origin is None:
            raise NotFound(f"the body was stored with {url[:200]} at {date[:40]}, which is not in this archive")
        return origin

    def _derived(self, record_id: str) -> str | None:
        """Return the text that `nephila extract` made later, which is the better one."""
        lines = self._search("indexes/derived.idx", f"{record_id} conversion ".encode())
        if not lines:
            return None
        parts = lines[-1].decode("utf-8", "replace").split(" ")
        try:
            offset, name = int(parts[3]), parts[5]
        except (IndexError, ValueError):
            raise Damaged(f"indexes/derived.idx: {lines[-1][:80]!r}") from None
        place = Place("", time_of("1970"), name, offset, 0)
        record = self._reader(place, whole=True).next()
        if record is None or record.type != "conversion":
            raise Damaged(f"{name}: no text at offset {offset}")
        return record.read(TEXT_BYTES_MAX).decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"<Crawl {self._storage.shown('')}>"


def _is_crawl(storage: Storage) -> bool:
    return any(it.is_dir and it.name in ("archive", "table") for it in storage.list(""))


def _is(column: str, value: object) -> Any:
    if value is None:
        return None
    field = load("pyarrow.dataset", "pyarrow", "reading tables").field(column)
    return field.isin(list(value)) if isinstance(value, (list, tuple, set)) else field == value


def _conditions(
    url: str | None,
    host: str | None,
    domain: str | None,
    status: int | Sequence[int] | None,
    subset: str | None,
    mime: str | None,
    allowed: Use | None,
) -> list[Any]:
    return [
        _is("url", url),
        _is("url_host_name", host),
        _is("url_host_registered_domain", domain),
        _is("fetch_status", status),
        _is("subset", subset),
        _is("content_mime_detected", mime),
        None if allowed is None else usage_filter(allowed),
    ]


def _all_of(conditions: list[Any], last: Any) -> Any:
    result = last
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else condition & result
    return result
