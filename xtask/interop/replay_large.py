"""Does the export of a large crawl need more memory or time than a copy of its files?

The archive files are real ones with a record of zeros behind, which takes no room on the disk, and an index with as many
lines as a crawl of that size has. What is written is freed from the disk while it is written, by holes, so that the
result takes no room either: it is no WACZ file to open.
"""

import ctypes
import os
import resource
import shutil
import subprocess
import threading
import time

PIECE = 1 << 20
FILE_BYTES = 5_000_000_000
# A capture of a crawl has 10 kB on average.
CAPTURE_BYTES = 10_000
KEEP_BYTES = 64 << 20
ROUNDS = 3
# Crawls from this size on are exported once.
ONCE_BYTES = 20_000_000_000
PUNCH_HOLE, KEEP_SIZE = 2, 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Measured:
    """A program that has run: its time and that of the processor, the most memory it had, and its end."""

    def __init__(self, command, hole_in=None):
        begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        self.kilobytes = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            said = []
            reader = threading.Thread(target=lambda: said.append(running.stdout.read()))
            reader.start()
            freed = 0
            while running.poll() is None:
                # Not the usage of the ended process: that counts this program, which it was before.
                try:
                    with open("/proc/%d/status" % running.pid) as status:
                        lines = [line.split() for line in status if line.startswith("VmHWM")]
                    self.kilobytes = max([self.kilobytes, *(int(line[1]) for line in lines)])
                except OSError:
                    pass
                if hole_in:
                    freed = punched(hole_in, freed)
                time.sleep(0.01)
            reader.join()
        self.seconds = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.code, self.said = running.returncode, "".join(said)

    @property
    def megabytes(self):
        return self.kilobytes * 1024 / 1e6


def punched(path, freed):
    """Frees what was written to a file, except its end. Returns up to where."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return freed
    try:
        until = (os.fstat(file).st_size - KEEP_BYTES) // PIECE * PIECE
        if until > freed:
            code = LIBC.fallocate(file, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(freed), ctypes.c_long(until - freed))
            if code != 0:
                raise OSError(ctypes.get_errno(), "this disk has no holes")
            return until
        return freed
    finally:
        os.close(file)


def copied(files, to, holes=False):
    """Seconds that a plain copy of files into one takes, synced, and seconds of the processor."""
    begun, cpu, freed = time.monotonic(), time.process_time(), 0
    piece = bytearray(PIECE)
    view = memoryview(piece)
    with open(to, "wb", buffering=0) as out:
        for path in files:
            with open(path, "rb", buffering=0) as file:
                while count := file.readinto(piece):
                    out.write(view[:count])
                    if holes and out.tell() - freed > 8 * KEEP_BYTES:
                        freed = punched(to, freed)
        os.fsync(out.fileno())
    seconds = time.monotonic() - begun, time.process_time() - cpu
    os.remove(to)
    return seconds


def archive_files(folder):
    archive = os.path.join(folder, "archive")
    names = sorted(os.listdir(archive))
    return [os.path.join(archive, name) for name in names if name.endswith((".warc.gz", ".warc"))]


def make(nephila, small, folder, size):
    """Makes a large crawl of a small one, whose archive is not compressed: as many bytes, and as many captures. The
    tables are written, as `tables.write` does."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(small, folder)
    (real,) = archive_files(folder)
    shutil.rmtree(os.path.join(folder, "indexes"))
    stem = real[:-len(".warc")]
    with open(real, "rb") as file:
        begin = file.read()
    with open(stem + ".cdxj", "rb") as file:
        lines = file.read()
    os.remove(real)
    os.remove(stem + ".cdxj")
    count = max(1, round(size / FILE_BYTES))
    made = []
    for number in range(count):
        name = os.path.basename(stem).replace("-00000-", "-%05d-" % number)
        path = os.path.join(folder, "archive", name)
        length = size // count - len(begin) - 1000
        head = ("WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-%012d>\r\n"
                "WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: urn:zeros:%d\r\n"
                "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % (number, number, length))
        with open(path + ".warc", "wb") as file:
            file.write(begin + head.encode())
            file.seek(length, os.SEEK_CUR)
            file.write(b"\r\n\r\n")
        with open(path + ".cdxj", "wb") as file:
            file.write(lines.replace(os.path.basename(stem).encode(), name.encode()))
        made.append((path, name))
    tables = Measured([nephila, "export", "parquet", "-q", "-o", folder])
    if tables.code != 0:
        raise RuntimeError("the tables of the large crawl: " + tables.said)
    captures = 0
    for number, (path, name) in enumerate(made):
        with open(path + ".cdxj", "w") as file:
            for line in range(size // count // CAPTURE_BYTES):
                captures += 1
                file.write('test,large)/%05d/%09d 20260101000000 {"url": "http://large.test/%05d/%09d", "mime": "text/html"'
                           ', "status": "200", "digest": "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "length": "9000", '
                           '"offset": "%d", "filename": "%s.warc"}\n' % (number, line, number, line, line * CAPTURE_BYTES, name))
    return captures


def measure(nephila, small, work, size):
    """The export of a crawl of this size beside a copy of its files: a line of words, and what is wrong."""
    folder, to = os.path.join(work, "large"), os.path.join(work, "large.wacz")
    captures = make(nephila, small, folder, size)
    files = archive_files(folder)
    bytes = sum(os.path.getsize(path) for path in files)
    copies, runs, is_whole = [], [], True
    for _ in range(ROUNDS if size < ONCE_BYTES else 1):
        copies.append(copied(files, to, holes=True))
        runs.append(Measured([nephila, "export", "wacz", "-o", folder, "--to", to], hole_in=to + ".part"))
        is_whole &= runs[-1].code == 0 and os.path.getsize(to) > bytes
        if os.path.exists(to):
            os.remove(to)
    shutil.rmtree(folder)
    return {"bytes": bytes, "files": len(files), "captures": captures, "is_whole": is_whole, **compared(copies, runs)}


def compared(copies, runs):
    """The best of all rounds, so that other work on the machine counts little."""
    copy, export = min(copies)[0], min(run.seconds for run in runs)
    return {"copy": copy, "export": export, "share": copy / export, "copy_cpu": min(cpu for _, cpu in copies),
            "export_cpu": min(run.cpu for run in runs), "megabytes": max(run.megabytes for run in runs),
            "said": [run.said.strip() for run in runs]}


def words(found):
    """The comparison as text."""
    return ("%.2f s (processor %.2f s), a copy %.2f s (%.2f s), %.0f %% of its speed, %.0f MB"
            % (found["export"], found["export_cpu"], found["copy"], found["copy_cpu"], 100 * found["share"],
               found["megabytes"]))
