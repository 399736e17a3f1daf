"""Hooks of schemathesis for `fuzz.py`: values that exist on the server, one rule for 503, and the figures of a run.

The environment names a file with the plan of the run (`API_FUZZ_PLAN`): URLs, jobs and cursors that the server knows, and
where the figures go. Requests that are meant to be right get such values, so that operations do their work and do not
only answer 404. Nothing here makes a check weaker, except that 503 with `Retry-After`, which each operation documents, is
no error of the server; such answers are counted. So are the refusals of rules that a schema cannot say (BEYOND). A head that is too large (414, 431) is refused without a body, and a site
that gives no page is 500 with `SCRAPE_SITE_ERROR` for clients of Firecrawl, both as documented.
"""

import atexit
import collections
import datetime
import json
import os
import random
import re
import sys
import threading
import uuid

import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import CHECKS

PLAN = json.load(open(os.environ["API_FUZZ_PLAN"]))
PROGRESS = 500
EXAMPLES_MAX = 3
HANDLE = threading.Lock()
# What the site did is status 500 at Firecrawl, with a word of its own: docs/api.md.
SITE = re.compile(rb'"code":"SCRAPE_(SITE_ERROR|DNS_RESOLUTION_ERROR|SSL_ERROR|TOO_MANY_REDIRECTS)"')
RANDOM = random.Random(PLAN["seed"])
# Operations that refuse (400) data which the schema permits, and why. A key that is used again (422) and an answer that is larger
# than the client allows (413) may come from any.
BEYOND = {
    "listEvents": "from is a place that an answer named",
    "lookUpCaptures": "a filter is a field and a pattern",
    "replayCapture": "an address holds a URL",
    "createJob": "a folder's further jobs have fewer limits than those of a cluster",
    "createLink": "the name is that of a host, or of a job",
    "beginCrawl": "patterns have a grammar of their own, and some options exclude each other: docs/api.md",
}
# Operations about a host, whose name without a scheme is enough.
HOSTS = ("getHost", "getTimeline", "getPoliteness")
FIGURES = {
    "requests": 0,
    "positive": 0,
    "negative": 0,
    "later": 0,
    "lost": 0,
    "beyond": 0,
    "operations": collections.Counter(),
    "statuses": collections.Counter(),
    "checks": CHECKS.get_all_names(),
    "failures": {},
}

# The URLs of a crawl: the document says `uri`, and means those that are crawled.
URLS = st.one_of(
    st.sampled_from(PLAN["urls"]),
    st.from_regex(r"http://[a-z]{1,20}\.test/[a-z0-9/._~%41-]{0,40}(\?[a-z]=[a-z0-9+]{0,9})?", fullmatch=True),
    st.from_regex(r"https://[a-z]{1,9}\.example(:[1-9][0-9]{2,3})?/", fullmatch=True),
)
schemathesis.openapi.format("uri", URLS)
schemathesis.openapi.format("cursor", st.just("-"))
schemathesis.openapi.format(
    "http-date",
    st.datetimes(min_value=datetime.datetime(1990, 1, 1)).map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT")),
)
schemathesis.openapi.format(
    "stop-target",
    st.one_of(
        st.from_regex(r"[a-z]{1,9}\.[a-z]{2,9}\.example", fullmatch=True),
        st.from_regex(r"\*\.[a-z]{2,9}\.example", fullmatch=True),
        st.from_regex(r"192\.0\.2\.[1-9](/3[12])?", fullmatch=True),
    ),
)


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


def schema_of(case, place, name):
    for parameter in case.operation.definition.raw.get("parameters", []):
        if parameter.get("name") == name and parameter.get("in") == place:
            return parameter.get("schema", {})
    return {}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives requests that are meant to be right values that the server knows, and takes out what would end it."""
    operation = case.operation.definition.raw.get("operationId", "")
    for name, value in (case.path_parameters or {}).items():
        # Names come from answers too.
        if str(value).strip() == PLAN["kept"].get(operation):
            case.path_parameters[name] = f"{value}-2"
    if not is_positive(case):
        return
    with HANDLE:
        chance, key = RANDOM.random(), str(uuid.UUID(int=RANDOM.getrandbits(128)))
    parts = case.path_parameters or {}
    known = PLAN["parts"].get(operation, {})
    for name in parts:
        if name in known and chance < 0.6:
            parts[name] = known[name][int(chance * 1e6) % len(known[name])]
    if operation == "createJob" and isinstance(case.body, dict) and isinstance(case.body.get("scope", {}), dict):
        # One machine wants seeds, and URLs that are crawled.
        case.body["scope"] = {**case.body.get("scope", {}), "seeds": [PLAN["urls"][int(chance * 1e6) % len(PLAN["urls"])]]}
    query = case.query or {}
    if query.get("with"):
        # A page with its resources has one form.
        query.pop("as", None)
    for name in list(query):
        if schema_of(case, "query", name).get("format") == "cursor":
            # A cursor belongs to its list: one of an answer, or none.
            cursors = PLAN["cursors"].get(operation)
            if cursors:
                query[name] = cursors[int(chance * 1e6) % len(cursors)]
            else:
                del query[name]
    headers = case.headers
    if headers is not None:
        name = next((name for name in headers if name.lower() == "idempotency-key"), None)
        if name and chance < 0.9:
            # A key belongs to one request, and generated ones are often the same.
            headers[name] = key
    has_lines = "application/x-ndjson" in json.dumps(case.operation.definition.raw.get("responses", {}).get("200", {}))
    if has_lines and chance > 0.7 and headers is not None:
        headers["Accept"] = "application/x-ndjson"


@schemathesis.hook
def after_call(context, case, response):
    with HANDLE:
        FIGURES["requests"] += 1
        FIGURES["positive" if is_positive(case) else "negative"] += 1
        FIGURES["operations"][case.operation.label] += 1
        FIGURES["statuses"][f"{case.operation.label} {response.status_code}"] += 1
        if FIGURES["requests"] % PROGRESS == 0:
            failures = sum(found["count"] for found in FIGURES["failures"].values())
            print(f"  {PLAN['name']}: {FIGURES['requests']} requests, {failures} failures", file=sys.stderr, flush=True)


@schemathesis.hook
def after_network_error(context, case, request):
    with HANDLE:
        FIGURES["requests"] += 1
        FIGURES["lost"] += 1
        note("network", case, None, f"{request.method} {request.url}: no answer")


@schemathesis.hook
def filter_failure(context, failure, case, response):
    kind = failure.checks[0] if failure.checks else type(failure).__name__
    with HANDLE:
        if kind == "not_a_server_error" and response.status_code == 503 and response.headers.get("retry-after"):
            FIGURES["later"] += 1
            return False
        is_site = response is not None and response.status_code == 500 and SITE.search(response.content)
        if kind == "not_a_server_error" and is_site and case.operation.label == "POST /v2/scrape":
            return False
        is_refused_head = response is not None and response.status_code in (414, 431) and not response.content
        if is_refused_head and kind in ("content_type_conformance", "response_schema_conformance"):
            return False
        if is_beyond(kind, case, response, str(failure)):
            FIGURES["beyond"] += 1
            return False
        note(kind, case, response, str(failure))
    return True


def is_beyond(kind, case, response, text):
    """Whether the failure is about a rule that a schema cannot say: see BEYOND."""
    if response is None:
        return False
    if kind == "positive_data_acceptance":
        is_reused = response.status_code == 422 and b"Idempotency-Key was used before" in response.content
        operation = case.operation.definition.raw.get("operationId", "")
        is_site = operation == "scrape" and response.status_code == 408
        # By JSON Schema 136.0 is an integer.
        is_integer = response.status_code == 400 and b"invalid type: floating point" in response.content
        is_known = response.status_code == 413 or (response.status_code == 400 and operation in BEYOND)
        return is_reused or is_site or is_integer or is_known
    if kind == "negative_data_rejection" and response.status_code < 400:
        if "'uri' format" in text and case.operation.definition.raw.get("operationId") in HOSTS:
            return True
        if "in query - violates `additionalProperties`" in text:
            # A parameter that no operation knows is ignored, as is usual.
            return True
        # A query is text: `url=null` is a word of four letters.
        found = re.search(r"parameter `(\w+)` in query", text)
        return bool(found and "ncorrect type" in text and schema_of(case, "query", found[1]).get("type") == "string")
    return False


def note(kind, case, response, text):
    """Remembers a failure, with a few examples."""
    key = f"{kind} | {case.operation.label}"
    found = FIGURES["failures"].setdefault(key, {"count": 0, "examples": []})
    found["count"] += 1
    if found["count"] == 1:
        # A long run shows what it found as soon as it finds it.
        status = response.status_code if response is not None else "no answer"
        answer = response.content[:300] if response is not None else b""
        print(f"  {PLAN['name']}: {key}: {status} {answer!r}: {text[:600]!r}", file=sys.stderr, flush=True)
    if len(found["examples"]) < EXAMPLES_MAX:
        sent = response.request if response is not None else None
        found["examples"].append(
            {
                "why": text[:1500],
                "request": f"{sent.method} {sent.url}" if sent is not None else "",
                "headers": dict(sent.headers) if sent is not None else {},
                "body": repr(sent.body)[:600] if sent is not None else "",
                "status": response.status_code if response is not None else 0,
                "answer": response.content[:600].decode(errors="replace") if response is not None else "",
            }
        )


@atexit.register
def write():
    with open(PLAN["figures"], "w") as file:
        json.dump(FIGURES, file)
