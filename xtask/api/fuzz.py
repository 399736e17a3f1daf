"""Judges the HTTP API of running servers by tools that share no code with it.

Usage: fuzz.py PLAN.json  Prints progress and, as the last line, figures; exits 1 if a check failed.

For each run of the plan (a server, and a role or none) openapi-spec-validator checks the document of the server, then
schemathesis sends requests that follow the document and requests that break it, with all its checks. Requests that
schemathesis cannot make are sent by sockets: percent-encoding that is none, bytes that are no UTF-8, heads and numbers that
are too large, bodies that end early, methods that do not exist; each answer must be one that the document describes.

What is left out is in the plan by name, with the reason, and printed.
"""

import collections
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import jsonschema
import openapi_spec_validator

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_S = 60
# A client may ask a server to wait for 20 s.
SLOW_S = 30
METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")
SHOWN = 12
BODY_BYTES = 5 << 20
PROBLEM = "application/problem+json"


# A head that is too large is refused before the parameters are looked at.
CONFIG = """hooks = "hooks"
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "414", "415", "422", "428", "429", "431", "5xx"]
"""


class Run:
    """A server with a role."""

    def __init__(self, plan, of, seed):
        self.name, self.base, self.token, self.requests = of["name"], of["base"], of.get("token"), of["requests"]
        self.left_out, self.kept, self.plan, self.seed = of.get("left_out", {}), of.get("kept", {}), plan, seed
        self.address = (urllib.parse.urlsplit(self.base).hostname, urllib.parse.urlsplit(self.base).port)
        self.raw_sent, self.faults = 0, collections.Counter()
        self.examples = {}
        self.figures = []
        self.document = json.loads(self.get("/api/v1/openapi.json", of["reader"])[2])
        self.reader = of["reader"]

    def get(self, target, token):
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        return self.ask("GET", target, fields, b"")

    def ask(self, method, target, fields, body, close=True):
        """Sends bytes and returns status, head fields and body; status 0 without an answer."""
        head = f"{method} {target} HTTP/1.1\r\nHost: {self.address[0]}:{self.address[1]}\r\n"
        fields = {"Connection": "close", "Content-Length": str(len(body)), **fields}
        head += "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        with socket.create_connection(self.address, timeout=ANSWER_S) as stream:
            try:
                stream.sendall(head.encode("latin-1") + body)
            except OSError:
                pass  # It may have answered before it read everything.
            answer = b""
            try:
                while piece := stream.recv(1 << 16):
                    answer += piece
            except OSError:
                pass
        head, _, rest = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        found = re.match(r"HTTP/1\.1 (\d{3})", lines[0])
        pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        return (int(found[1]) if found else 0), headers, rest

    def operations(self):
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                if method in METHODS:
                    yield path, method.upper(), operation

    # Requests by sockets.

    def fault(self, what, method, target, status, text):
        key = f"raw: {what}"
        self.faults[key] += 1
        self.examples.setdefault(key, []).append(f"{method} {target[:200]} -> {status} {text[:300]}")

    def judge(self, operation, path, method, target, fields=None, body=b"", expected=None):
        """One request, whose answer must be one that the document describes."""
        if self.token and "Authorization" not in (fields or {}):
            fields = {"Authorization": f"Bearer {self.token}", **(fields or {})}
        status, headers, answer = self.ask(method, target, fields or {}, body)
        self.raw_sent += 1
        text = answer.decode(errors="replace")
        say = lambda what: self.fault(what, method, target, status, text)
        if status == 0:
            return say("no answer")
        if status >= 500 and not (status == 503 and "retry-after" in headers):
            say("server error")
        if expected and status not in expected:
            say(f"status is none of {expected}")
        answers = operation["responses"]
        is_named = str(status) in answers
        forms = {} if is_named else self.content(answers.get("default", {}))
        if not is_named and "default" not in answers and not (status == 405 and method not in self.methods(path)):
            say("status is not documented")
        kind = headers.get("content-type", "")
        if "*/*" in forms:
            if kind != PROBLEM:
                return None  # A capture, with the status, the type and the fields that its site sent.
            forms = {}
        is_bare = status in (400, 414, 431) and not answer
        if (status >= 400 or forms) and not is_bare and method != "HEAD":
            forms = forms or {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
            if kind not in forms:
                return say(f"error has none of the documented types {sorted(forms)}")
            try:
                jsonschema.validate(json.loads(answer), {**forms[kind]["schema"], "components": self.document["components"]})
            except (ValueError, jsonschema.ValidationError) as error:
                say(f"error is not as documented: {str(error)[:100]}")
        for needed, name in ((405, "allow"), (401, "www-authenticate"), (429, "retry-after"), (503, "retry-after")):
            if status == needed and name not in headers:
                say(f"{status} without {name}")
        return None

    def content(self, answer):
        """The content of an answer of the document, by type."""
        if "$ref" in answer:
            answer = self.document["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
        return answer.get("content", {})

    def methods(self, path):
        return {method.upper() for method in self.document["paths"][path]} | {"HEAD"}

    def raw(self):
        """Requests that no generator of valid HTTP sends."""
        for path, method, operation in self.operations():
            name = operation["operationId"]
            if name in self.left_out:
                continue
            plain = re.sub(r"\{[^}]+\}", "x", path)
            parameters = [one for one in operation["parameters"] if "$ref" not in one]
            required = [one for one in parameters if one["in"] == "query" and one["required"]]
            usual = "&".join(f"{one['name']}={'1' if one['schema'].get('type') == 'integer' else 'http%3A//a.test/'}" for one in required)
            ask = lambda target, **more: self.judge(operation, path, method, target, **more)
            join = lambda query: f"{plain}?{usual}&{query}" if usual else f"{plain}?{query}"
            for query in ("", "&&&=&", "%", "%zz=%zz", "a=%00", "a" * 60_000, "?" * 300, "/../..", "#"):
                ask(join(query).replace("#", "%23"))
            ask(join("a" * 70_000), expected=(414, 431))
            for one in parameters:
                if one["in"] == "query":
                    others = [other for other in required if other is not one]
                    rest = "".join(f"&{other['name']}={'1' if other['schema'].get('type') == 'integer' else 'http%3A//a.test/'}" for other in others)
                    for value in ("%ff%fe", "%C3"):
                        allowed = (400, 401, 403)
                        ask(f"{plain}?{one['name']}={value}{rest}", expected=allowed)
                    for value in ("%00", "%", "%zz", "", "9" * 400, "-1", "%F0%9F%95%B7", "1e400", "NaN", "../../etc/passwd"):
                        ask(f"{plain}?{one['name']}={value}{rest}")
                    if one["schema"].get("type") != "array":
                        ask(f"{plain}?{one['name']}=1&{one['name']}=1{rest}", expected=(400, 401, 403))
                if one["in"] == "path":
                    for value in ("%00", "%ff", "%", "%2e%2e%2f", "a" * 20_000, "%F0%9F%95%B7", ".", "..%00", "%0d%0aX: y"):
                        ask(path.replace("{" + one["name"] + "}", value.replace(" ", "%20")) + (f"?{usual}" if usual else ""))
            for field in ({"Accept": "\xff\xfe"}, {"Accept": ",;=" * 500}, {"Idempotency-Key": "k" * 300}, {"Idempotency-Key": "\xfc"}, {"Cookie": "nephila_session=a.b.c.d"}, {"Range": "bytes=9-1"}, {"Host": "evil.test"}):
                ask(join(""), fields=field)
            for wrong in ("Bearer", "Bearer  ", "Basic YTpi", "\xff", "Bearer " + "x" * 5_000):
                if operation.get("x-nephila-role") != "none" and self.document["security"]:
                    ask(join(""), fields={"Authorization": wrong}, expected=(401, 414, 431))
            for other in ("PUT", "TRACE", "OPTIONS", "FOO", "get", "QUERY"):
                if other not in self.methods(path):
                    allowed = (405, 401) if self.document["security"] else (405,)
                    self.judge(operation, path, other, join(""), expected=allowed)
            bodies = [b"", b"{", b"\xff\xfe\x00", b"null", b"[]", b"0", b'""', b"[" * 20_000, b'{"a":' * 5_000, b"9" * 5_000, b"\x00" * 100, b"\n" * 1_000]
            if method != "GET":
                for body in bodies:
                    ask(join(""), body=body)
                ask(join(""), body=b"<a/>", fields={"Content-Type": "text/xml"})
                ask(join(""), body=b"{}", fields={"Content-Type": "application/json; charset=\xff"})
                ask(join(""), body=b"\x1f\x8b", fields={"Content-Encoding": "gzip"})
                ask(join(""), fields={"Content-Length": "x"}, expected=(400,))
                ask(join(""), body=b"zz\r\n", fields={"Transfer-Encoding": "chunked", "Content-Length": "4"})
                ask(join(""), body=b"a" * BODY_BYTES, expected=(413, 401, 403))

    def slow(self):
        """A body that does not come is answered with 408."""
        posts = [(path, operation) for path, method, operation in self.operations() if method == "POST" and "{" not in path]
        if posts and self.token:
            path, operation = posts[0]
            self.judge(operation, path, "POST", path, fields={"Content-Length": "10"}, expected=(408, 403))

    def stream(self):
        """Server-sent events have no end, so they are read by hand."""
        for path, method, operation in self.operations():
            if operation["operationId"] != "followLive":
                continue
            self.judge(operation, path, method, f"{path}?topics=weather", expected=(400, 401, 404))
            self.judge(operation, path, "POST", path, expected=(405, 401))
            fields = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
            self.raw_sent += 1
            with socket.create_connection(self.address, timeout=ANSWER_S) as stream:
                stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.address[0]}\r\n{fields}\r\n".encode())
                answer = b""
                while answer.count(b"event:") < 2 and (piece := stream.recv(1 << 16)):
                    answer += piece
                    if answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 503")):
                        break
            is_stream = b"text/event-stream" in answer and answer.count(b"event:") >= 2
            is_refused = answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 404"))
            if not is_stream and not is_refused:
                self.fault("no stream of events", "GET", path, 0, answer[:200].decode(errors="replace"))

    # Requests by schemathesis.

    def known(self):
        """URLs, names and cursors that the server knows."""

        def read(target):
            status, _, body = self.get(target, self.reader)
            # The answers are read as chunks only if they are JSON as a whole.
            try:
                return json.loads(body) if status == 200 else None
            except ValueError:
                return None

        lines = (read("/api/v1/log?limit=200") or {}).get("lines", [])
        urls = [line["url"] for line in lines if line.get("url", "").startswith("http")]
        jobs = [job["name"] for job in read("/api/v1/jobs") or []]
        parts = {name: {"job": jobs} for name in ("getJob", "pauseJob", "resumeJob") if jobs}
        parts["getDashboardFile"] = {"file": ["app.js", "style.css", "api.js"]}
        if urls:
            parts["replayCapture"] = {"address": [f"2026id_/{url}" for url in urls[:9]] + urls[:9]}
        cursors = {}
        for path, method, operation in self.operations():
            named = {one["name"]: one["schema"] for one in operation["parameters"] if "$ref" not in one}
            cursor = next((name for name, schema in named.items() if schema.get("format") == "cursor"), None)
            size = next((name for name in ("limit", "max") if name in named), None)
            if method != "GET" or not cursor or not size or "{" in path:
                continue
            url = f"&url={urllib.parse.quote(urls[0], safe='')}" if urls and "url" in named else ""
            said = read(f"{path}?{size}=1{url}")
            if isinstance(said, dict):
                cursors[operation["operationId"]] = [said[name] for name in ("cursor", "next") if isinstance(said.get(name), str)]
        return {
            "urls": urls or ["http://a.test/"],
            "parts": parts,
            "cursors": {name: values for name, values in cursors.items() if values},
        }

    def schemathesis(self, folder, count, round_number):
        """One call of schemathesis for about this number of requests."""
        number = len(list(self.operations()))
        is_first = round_number == 0 and count >= 40 * number
        # The first call of a long run walks through every limit of every schema; others alternate between right and wrong.
        phases = "examples,coverage,fuzzing,stateful" if is_first else "fuzzing"
        mode = "all" if is_first else ("positive", "negative")[round_number % 2]
        rest = count // 2 if not is_first and round_number == 0 else count
        examples = max(10, count // (number * 6)) if is_first else max(1, rest // number)
        document, plan = folder / "openapi.json", folder / "plan.json"
        document.write_text(json.dumps(self.document))
        figures = folder / f"figures-{round_number}.json"
        seed = self.seed + round_number
        plan.write_text(json.dumps({"name": self.name, "seed": seed, "figures": str(figures), "kept": self.kept, **self.known()}))
        config = folder / "schemathesis.toml"
        config.write_text(CONFIG)
        command = [self.plan["schemathesis"], "--config-file", config, "run", document, "--url", self.base]
        command += ["--phases", phases, "--mode", mode, "-n", examples, "--seed", seed, "--continue-on-failure", "--no-shrink"]
        command += ["--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off", "--no-color"]
        command += ["--request-timeout", ANSWER_S, "--checks", "all", "--max-response-time", SLOW_S]
        if self.token:
            command += ["-H", f"Authorization: Bearer {self.token}"]
        for name in self.left_out:
            command += ["--exclude-operation-id", name]
        environment = {**os.environ, "PYTHONPATH": str(HERE), "API_FUZZ_PLAN": str(plan), "PYTHONDONTWRITEBYTECODE": "1"}
        log = folder / f"schemathesis-{round_number}.log"
        with log.open("w") as out:
            done = subprocess.run([str(part) for part in command], env=environment, stdout=out, cwd=folder, check=False)
        said = json.loads(figures.read_text()) if figures.exists() else None
        # 0: nothing found, 1: found; else the tool itself failed. Faults of the document are errors of the tool.
        text = log.read_text()
        errors = re.search(r"^=+ ERRORS =+$(.*?)^=+ (?:FAILURES|SUMMARY)", text, re.S | re.M)
        if said is None or done.returncode not in (0, 1) or (done.returncode == 1 and not said["failures"]) or errors:
            self.faults["schemathesis"] += 1
            self.examples.setdefault("schemathesis", []).append(errors[1][:6_000] if errors else text[-6_000:])
        if said:
            self.figures.append(said)
        return said["requests"] if said else 0

    def go(self, folder):
        began = time.monotonic()
        openapi_spec_validator.validate(self.document)
        print(f"{self.name}: the document is OpenAPI {self.document['openapi']} with {len(list(self.operations()))} operations", flush=True)
        self.stream()
        if self.plan["raw"]:
            self.raw()
            self.slow()
        print(f"{self.name}: {self.raw_sent} requests by sockets, {sum(self.faults.values())} faults", flush=True)
        sent, number = 0, 0
        while sent < self.requests and number < 30 and not (number and not self.figures):
            sent += self.schemathesis(folder, self.requests - sent, number)
            number += 1
        failures = sum(found["count"] for said in self.figures for found in said["failures"].values())
        seconds = time.monotonic() - began
        print(f"{self.name}: {sent} requests by schemathesis, {failures} failures, {seconds:.0f} s", flush=True)


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    kept = pathlib.Path(plan["out"])
    checks, failures, covered, all_operations, to_call, left_out = set(), collections.Counter(), set(), set(), set(), {}
    sent = raw = positive = negative = later = beyond = 0
    report = {}
    for number, of in enumerate(plan["runs"]):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(plan, of, plan["seed"] + 1_000 * number)
            run.go(pathlib.Path(folder))
        server = run.name.split("/")[0]
        raw += run.raw_sent
        for path, method, operation in run.operations():
            all_operations.add(f"{server} {method} {path}")
            if operation["operationId"] not in run.left_out:
                to_call.add(f"{server} {method} {path}")
        left_out.update(run.left_out)
        for what, count in run.faults.items():
            failures[what] += count
            report.setdefault(what, []).extend(run.examples[what][:SHOWN])
        for said in run.figures:
            sent, positive, negative, later = sent + said["requests"], positive + said["positive"], negative + said["negative"], later + said["later"]
            beyond += said["beyond"]
            checks.update(said["checks"])
            covered |= {f"{server} {label}" for label in said["operations"]}
            for what, found in said["failures"].items():
                failures[what.split(" | ")[0]] += found["count"]
                report.setdefault(f"{run.name}: {what}", []).extend(found["examples"])
        report.setdefault("statuses", {})[run.name] = dict(sum((collections.Counter(said["statuses"]) for said in run.figures), collections.Counter()))
    if uncalled := sorted(to_call - covered):
        failures["operations that were not called"] = len(uncalled)
        report["operations that were not called"] = uncalled
    kept.write_text(json.dumps(report, indent=1))
    for what, examples in report.items():
        if what != "statuses":
            print(f"FAIL  {what}")
            for example in examples[:2]:
                print("      " + (json.dumps(example)[:1_200] if isinstance(example, dict) else example))
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    if later:
        print(f"{later} answers were 503 with Retry-After, as documented")
    if beyond:
        print(f"{beyond} answers refused what a schema cannot say, as documented")
    total = sum(failures.values())
    by_check = ", ".join(f"{name} {failures[name]}" for name in sorted(checks | set(failures)))
    print(
        f"api-fuzz: {sent:,} requests by schemathesis ({positive:,} right, {negative:,} wrong), {raw:,} by sockets; "
        f"{len(covered)} of {len(all_operations)} operations of {len({name.split(' ')[0] for name in all_operations})} kinds of servers; "
        f"{total} failures: {by_check}"
    )
    sys.exit(1 if total or not sent else 0)


if __name__ == "__main__":
    main()
