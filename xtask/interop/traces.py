#!/usr/bin/env python3
"""Traces, read with the public definition of OTLP: `traces.py NEPHILA`.

Runs a crawl of a small site, with a collector on loopback that is busy at first, and parses every body with the package
`opentelemetry-proto`: ids, times, parents, attributes and statuses against the log of the crawl.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

PAGES = 40
# Longer than the crawl takes on a busy machine.
CRAWL_MAX = 120


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, body, more = 200, b"", {}
        if self.path == "/robots.txt":
            body = b"User-agent: *\nDisallow: /closed\n"
        elif self.path == "/":
            names = [f"p{number}" for number in range(PAGES)] + ["moved", "closed", "broken", "dropped", "missing"]
            body = "".join(f"<a href=/{name}>{name}</a>" for name in names).encode()
        elif self.path.startswith("/p"):
            body = b"<title>\xc3\xbcber \xe2\x80\xae\"quotes\"</title>" + b"word " * 400
        elif self.path == "/moved":
            status, more = 301, {"Location": "/p0?x=1&y=%22"}
        elif self.path == "/broken":
            status, body = 500, b"broken"
        elif self.path == "/dropped":
            self.close_connection = True
            return
        else:
            status = 404
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if self.path == "/robots.txt" else "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bodies = []
    refused = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_busy = Collector.refused == 0
        if is_busy:
            Collector.refused += 1
        else:
            Collector.bodies.append((self.path, self.headers["Content-Type"], body))
        self.send_response(503 if is_busy else 200)
        if is_busy:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


faults = []


def expect(condition, text):
    if not condition:
        faults.append(text)


def value_of(value):
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def crawl(nephila, folder):
    site, collector = serve(Site), serve(Collector)
    sets = [
        f"traces.to=http://127.0.0.1:{collector}/v1/traces", "traces.share=1", "traces.service_name=stranger",
        "frontier.host_delay=0s", "frontier.slot_delay=0s", "frontier.host_delay_factor=0", "crawl.retry_wait_max=0s",
    ]
    command = [nephila, "crawl", f"http://127.0.0.1:{site}/", "-o", "crawl", "--progress", "none", "--config", os.devnull]
    command += [word for pair in sets for word in ("--set", pair)]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    options = {"cwd": folder, "env": {**environment, "HOME": folder}, "timeout": CRAWL_MAX, "capture_output": True, "text": True}
    ended = subprocess.run(command, **options)
    log = subprocess.run([nephila, "log", "-o", "crawl", "--format", "jsonl"], **options)
    lines = [json.loads(line) for line in log.stdout.splitlines()]
    expect(len(lines) > PAGES, f"the crawl made {len(lines)} requests only: {ended.stderr}")
    return lines


def parse(bodies):
    """All spans of the bodies. The ids are hexadecimal in JSON, where Protocol Buffers have base64."""
    spans = []
    for path, kind, body in bodies:
        expect(path == "/v1/traces" and kind == "application/json", f"{path} {kind}")
        text = json.loads(body)
        # Raises on an unknown field and on a value of a wrong type.
        request = json_format.Parse(body, ExportTraceServiceRequest(), ignore_unknown_fields=False)
        for resource, raw_resource in zip(request.resource_spans, text["resourceSpans"], strict=True):
            about = {pair.key: value_of(pair.value) for pair in resource.resource.attributes}
            expect(about.get("service.name") == "stranger" and about.get("service.version"), f"resource {about}")
            for scope, raw_scope in zip(resource.scope_spans, raw_resource["scopeSpans"], strict=True):
                expect(scope.scope.name == "nephila", f"scope {scope.scope}")
                for span, raw in zip(scope.spans, raw_scope["spans"], strict=True):
                    trace_id, span_id = bytes.fromhex(raw["traceId"]), bytes.fromhex(raw["spanId"])
                    expect(len(trace_id) == 16 and any(trace_id), f"trace id {raw['traceId']}")
                    expect(len(span_id) == 8 and any(span_id), f"span id {raw['spanId']}")
                    expect(isinstance(raw["startTimeUnixNano"], str), "64-bit numbers are strings")
                    expect(isinstance(raw["kind"], int), "enumerations are numbers")
                    keys = [pair.key for pair in span.attributes]
                    expect(len(keys) == len(set(keys)), f"an attribute stands twice: {keys}")
                    spans.append((raw["traceId"], raw["spanId"], raw.get("parentSpanId", ""), span))
    return spans


def judge(lines, spans):
    ids = {span_id: (trace_id, span) for trace_id, span_id, _, span in spans}
    expect(len(ids) == len(spans), "span ids are not unique")
    for trace_id, _, parent_id, span in spans:
        expect(0 < span.start_time_unix_nano <= span.end_time_unix_nano, f"times of {span.name}")
        if parent_id:
            parent_trace, parent = ids.get(parent_id, ("", None))
            expect(parent_trace == trace_id, f"the parent of {span.name} is in another trace or missing")
            inside = parent and (parent.start_time_unix_nano <= span.start_time_unix_nano
                                 and span.end_time_unix_nano <= parent.end_time_unix_nano)
            expect(inside, f"{span.name} does not lie within its parent")
    requests = {}
    for trace_id, _, _, span in spans:
        if span.kind == Span.SPAN_KIND_CLIENT:
            about = {pair.key: value_of(pair.value) for pair in span.attributes}
            expect((trace_id, about["nephila.at"]) not in requests, "two requests of one line")
            requests[trace_id, about["nephila.at"]] = (span, about)
    expect(len(requests) == len(lines), f"{len(requests)} requests, {len(lines)} lines")
    for line in lines:
        span, about = requests.get((line.get("trace"), line["at"]), (None, None))
        if span is None:
            faults.append(f"no span for {line}")
            continue
        same = (about["url.full"], about.get("http.response.status_code"), about["nephila.outcome"])
        expect(same == (line["url"], line.get("status"), line["outcome"]), f"{same} is not {line}")
        is_error = line["class"] in ("retry", "broken") or (line.get("status") or 0) >= 400
        expect((span.status.code == Status.STATUS_CODE_ERROR) == is_error == ("error.type" in about), f"status of {line}")
    expect(not any("/closed" in line["url"] for line in lines), "robots.txt forbids it")


def main():
    with tempfile.TemporaryDirectory() as folder:
        lines = crawl(sys.argv[1], folder)
        expect(Collector.refused == 1, "the busy collector was not asked again")
        spans = parse(Collector.bodies)
        judge(lines, spans)
    for fault in faults:
        print("FAIL", "traces:", fault)
    if not faults:
        print(f"traces: {len(spans)} spans in {len(Collector.bodies)} bodies are OTLP, and {len(lines)} requests are as in the log")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
