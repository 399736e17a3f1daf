"""Names that other programs and people rely on: commands, options, settings, the HTTP API, metrics, events, exit codes.

`promised.txt` has a line for each, as they were when the file was written last. A line whose name is gone is a broken promise
(docs/compatibility.md). New names are wanted, and have to be written down: `cargo xtask deploy --write`.

Invariant: `--write` adds lines and removes none; a name that a new version removes on purpose is removed by hand.
"""

import pathlib
import re
import signal
import subprocess

from live import HOST, START_S, Processes, described, free_ports, left, status, until
from render import parsed

FILE = pathlib.Path(__file__).resolve().parent / "promised.txt"
HELP_S = 60


def of_commands(program, path=()):
    """Subcommands and long options, from `--help`."""
    text = subprocess.run([program, *path, "-h"], capture_output=True, text=True, timeout=HELP_S, check=True).stdout
    name = " ".join(("nephila", *path))
    yield f"command {name}"
    is_listed = False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            is_listed = line == "Commands:"
        elif is_listed and (found := re.match(r"  ([a-z][a-z-]*)(?:\s|$)", line)):
            if found.group(1) != "help":
                yield from of_commands(program, (*path, found.group(1)))
        elif not is_listed and (found := re.match(r"\s+(?:-\w, )?(--[a-z][a-z0-9-]*)", line)):
            yield f"option {name} {found.group(1)}"


def of_settings(program):
    """Keys of settings that have a section; those of lists are in comments, and not here."""
    text = subprocess.run([program, "settings"], capture_output=True, text=True, timeout=HELP_S, check=True).stdout

    def keys(table, path):
        for key, value in table.items():
            if isinstance(value, dict) and value:
                yield from keys(value, f"{path}{key}.")
            else:
                yield f"setting {path}{key}"

    yield from keys(parsed(text), "")


def of_api(document):
    """Requests with their parameters and statuses, and the fields of every schema."""
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            if not isinstance(operation, dict) or "responses" not in operation:
                continue
            name = f"{verb.upper()} {path}"
            yield f"api {name}"
            yield from (f"api {name} ?{parameter['name']}" for parameter in operation.get("parameters", []) if "name" in parameter)
    for name, schema in document["components"].get("schemas", {}).items():
        yield from (f"api field {name}.{field}" for field in schema.get("properties", {}))


def of_files(root):
    """Metrics, events and exit codes, from the files that other judges compare with the program."""
    metrics = (root / "docs/metrics.md").read_text(encoding="utf-8").partition("## Changed names")[0]
    yield from (f"metric {name}" for name in re.findall(r"^\|[^|]*\| `(nephila_[a-z_]+)`", metrics, re.MULTILINE))
    events = (root / "docs/events.md").read_text(encoding="utf-8").partition("## Kinds")[2].partition("\n## ")[0]
    yield from (f"event {name}" for name in re.findall(r"^\| `([a-z-]+)`", events, re.MULTILINE))
    exits = (root / "crates/nephila-engine/src/exit.rs").read_text(encoding="utf-8")
    yield from (f"exit {code} {name}" for name, code in re.findall(r"^    (\w+) = (\d+),", exits, re.MULTILINE))
    problems = (root / "docs/api.md").read_text(encoding="utf-8")
    yield from (f"problem {name}" for name in sorted(set(re.findall(r"`urn:nephila:problem:([a-z-]+)`", problems))))


def served(deployment, folder):
    """The API's document of a crawl on one machine: complaints, and the document."""
    port = free_ports(1)[0]
    with Processes(folder) as processes:
        words = [deployment.tools.nephila, "serve", "--new", "-o", folder / "served", "--set", f"api.listen={HOST}:{port}"]
        process = processes.start("served", words, {})
        if not until(lambda: status(f"http://{HOST}:{port}/livez") == 200, START_S):
            return [f"nephila serve --new does not answer: {processes.said('served')}"], None
        document = described(f"http://{HOST}:{port}")
        process.send_signal(signal.SIGTERM)
        return left("nephila serve", process, START_S)[0], document


def names(deployment, documents):
    program = deployment.tools.nephila
    found = {*of_commands(program), *of_settings(program), *of_files(deployment.root)}
    return found | {name for document in documents for name in of_api(document)}


def judge(found, is_written):
    """Complaints about names that are gone or not written down. With `is_written` new ones are written."""
    told = set(FILE.read_text(encoding="utf-8").splitlines()) if FILE.exists() else set()
    if is_written:
        FILE.write_text("".join(f"{name}\n" for name in sorted(told | found)), encoding="utf-8")
        told |= found
    gone, new = sorted(told - found), sorted(found - told)
    complaints = [f"promised: gone is `{name}`: bring it back, or break the promise in CHANGELOG.md and remove the line" for name in gone]
    return complaints + [f"promised: new is `{name}`: cargo xtask deploy --write" for name in new]
