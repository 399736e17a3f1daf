#!/usr/bin/env python3
"""Measures text extractors on two public data sets and prints the tables of `docs/text.md`.

    measure.py DATA OURS RIVALS [--split test|dev] [--only NAME]...

DATA is a folder with the data sets, as their repositories have them:

    wcxb/            Murrough-Foley/web-content-extraction-benchmark
    scrapinghub/     scrapinghub/article-extraction-benchmark

OURS is the built example `text_extract` of `nephila-text`, RIVALS the built program of `xtask/text/rivals`. Texts are judged
by the scripts of the data sets themselves, which share no code with ours. CPU time is that of the process, per page.
"""
import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ["article", "forum", "product", "collection", "listing", "documentation", "service"]
NAMES = ["today", "nephila-text", "rs-trafilatura", "trafilatura", "trafilatura-recall"]


def run(name, options, folder, urls, out):
    if name == "nephila-text":
        command = [options.ours, folder, urls, out]
    else:
        command = [options.rivals, name, folder, out]
    subprocess.run(command, check=True)
    return json.loads(out.read_text())


def wcxb(data, split, texts, scratch):
    results = scratch / "results.json"
    results.write_text(json.dumps({page: found["text"] for page, found in texts.items()}))
    command = [sys.executable, data / "wcxb" / "evaluate.py", "--split", split, "--results", results, "--per-type"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    scores = {"all": float(re.search(r"F1:\s+([\d.]+)", printed)[1])}
    for kind in KINDS:
        scores[kind] = float(re.search(rf"{kind}\s+\d+\s+([\d.]+)", printed)[1])
    return scores


def scrapinghub(data, name, texts, scratch):
    place = scratch / f"scrapinghub-{name}"
    (place / "output").mkdir(parents=True)
    for file in ("evaluate.py", "ground-truth.json"):
        shutil.copy(data / "scrapinghub" / file, place / file)
    bodies = {page: {"articleBody": found["text"]} for page, found in texts.items()}
    (place / "output" / f"{name}.json").write_text(json.dumps(bodies))
    command = [sys.executable, "evaluate.py", "--n-bootstrap", "2", "--output", "scores.json"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    return json.loads((place / "scores.json").read_text())[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("rivals", type=Path)
    parser.add_argument("--split", default="test", choices=["dev", "test"])
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    truth = options.data / "wcxb" / options.split
    notes = {file.stem: json.loads(file.read_text()) for file in (truth / "ground-truth").glob("*.json")}
    kinds = {}
    for page, note in notes.items():
        kind = note["_internal"]["page_type"]
        kind = kind["primary"] if isinstance(kind, dict) else kind
        kinds[page] = {"category": "collection"}.get(kind, kind)
    stories = json.loads((options.data / "scrapinghub" / "ground-truth.json").read_text())
    print("| extractor | all | " + " | ".join(KINDS) + " | scrapinghub | CPU ms, article | CPU ms, all |")
    print("|---|" + "---:|" * (len(KINDS) + 4))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        urls, story_urls = scratch / "urls.json", scratch / "story-urls.json"
        urls.write_text(json.dumps({page: note.get("url") or "" for page, note in notes.items()}))
        story_urls.write_text(json.dumps({page: story.get("url") or "" for page, story in stories.items()}))
        for name in options.only or NAMES:
            texts = run(name, options, truth / "html", urls, scratch / "texts.json")
            scores = wcxb(options.data, options.split, texts, scratch)
            folder = options.data / "scrapinghub" / "html"
            news = scrapinghub(options.data, name, run(name, options, folder, story_urls, scratch / "news.json"), scratch)
            article = statistics.mean(found["ms"] for page, found in texts.items() if kinds[page] == "article")
            every = statistics.mean(found["ms"] for found in texts.values())
            cells = [f"{scores[kind]:.3f}" for kind in ["all"] + KINDS]
            cells += [f"{news['f1']:.4f}", f"{article:.2f}", f"{every:.2f}"]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            if name == "nephila-text":
                right = [found["kind"] == kinds[page] for page, found in texts.items()]
                print(f"kind right on {statistics.mean(right):.3f} of the pages", file=sys.stderr)


if __name__ == "__main__":
    main()
