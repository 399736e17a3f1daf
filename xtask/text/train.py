#!/usr/bin/env python3
"""Trains the forests of `crates/nephila-text/src/model.bin`.

    train.py DATA WORK PROGRAM MODEL

DATA is a folder that `gather.py` filled. WORK is a scratch folder. PROGRAM is the built example `text_rows`. MODEL is the
file that is written. Needs numpy and lightgbm. No page and no label of WCXB or of scrapinghub's benchmark is used.

Each page is split into blocks by our own program. What is known of a block depends on the page:

- gold: the share of the words of the block that the true text has at this place;
- passages: blocks of a passage that the text has are text, blocks of a passage that it does not have are not, and the
  others are unknown. Where the first forests choose a text with all passages of the one sort and none of the other, their
  choice stands for the unknown blocks (only forests that have not seen the site are asked);
- marks: as gold with the text that the page itself marks as its content; a block that other pages of the site have too is
  not text.

Chances that a later forest reads are always those of forests that have not seen the page (folds by site), so that the
later forest learns how good they are.
"""
import json
import re
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from urllib.parse import urlsplit

import lightgbm
import numpy

KINDS = ["article", "forum", "product", "collection", "listing", "documentation", "service"]
FOLDS = 2
TOKEN = re.compile(r"\w+")
BASE = dict(num_threads=2, verbose=-1, seed=7, deterministic=True, force_row_wise=True)
BLOCK = dict(BASE, objective="cross_entropy", num_leaves=28, learning_rate=0.08, min_data_in_leaf=40,
             feature_fraction=0.2, bagging_fraction=0.7, bagging_freq=1, lambda_l2=20.0, max_bin=63)
FIRST_TREES, SECOND_TREES = 150, 150
DRAFT_TREES = 50
# How much a page of each source weighs.
TRUST = {"fundus": 1.0, "readability": 1.0, "defuddle": 0.5, "parser": 0.7, "newspaper4k": 0.7, "trafilatura": 1.0,
         "recipe-scrapers": 0.5, "metascraper": 0.4, "formasaurus": 0.6, "autopager": 0.6, "webstruct": 0.6}


def tokens(text):
    return TOKEN.findall((text or "").lower())


def f1(predicted, true):
    if not true:
        return float(not predicted)
    if not predicted:
        return 0.0
    both = sum((Counter(predicted) & Counter(true)).values())
    return 2 * both / (len(predicted) + len(true))


def label(blocks, true):
    """The share of the words of each block that the true text has, each place of the true text being used once."""
    places = defaultdict(list)
    for at in range(len(true) - 3):
        places[tuple(true[at:at + 4])].append(at)
    short = defaultdict(list)
    for size in (1, 2, 3):
        for at in range(len(true) - size + 1):
            short[tuple(true[at:at + size])].append(at)
    used = bytearray(len(true))
    shares, spans = [0.0] * len(blocks), [None] * len(blocks)
    for index, words in enumerate(blocks):
        if len(words) < 4:
            continue
        covered, low, high = bytearray(len(words)), None, None
        for at in range(len(words) - 3):
            found = next((place for place in places.get(tuple(words[at:at + 4]), ())
                          if not (used[place] and used[place + 3]) or covered[at]), None)
            if found is None:
                continue
            for step in range(4):
                covered[at + step] = 1
                used[found + step] = 1
            low = found if low is None else min(low, found)
            high = found + 4 if high is None else max(high, found + 4)
        shares[index] = sum(covered) / len(words)
        if shares[index] > 0.5:
            spans[index] = (low, high)
    ahead, following = None, [None] * len(blocks)
    for index in range(len(blocks) - 1, -1, -1):
        following[index] = ahead
        if spans[index]:
            ahead = spans[index][0]
    behind = None
    for index, words in enumerate(blocks):
        if spans[index]:
            behind = spans[index][1]
        elif 0 < len(words) < 4:
            start = behind - 3 if behind is not None else (following[index] or 0) - 60
            end = following[index] + 3 if following[index] is not None else (behind or 0) + 60
            if behind is None and following[index] is None:
                start, end = 0, len(true)
            for place in short.get(tuple(words), ()):
                if start <= place <= max(end, start + 10) and not any(used[place:place + len(words)]):
                    for step in range(len(words)):
                        used[place + step] = 1
                    shares[index] = 1.0
                    behind = max(behind or 0, place + len(words))
                    break
    return shares


def rows(program, folder, urls, chances, out):
    subprocess.run([program, folder, urls, chances, out], check=True)
    with open(out, "rb") as file:
        while head := file.read(12):
            note, width, count = struct.unpack("<III", head)
            note = json.loads(file.read(note))
            values = numpy.frombuffer(file.read(4 * count), dtype="<f4")
            yield note, values.reshape(-1, width) if width else values


def choose(words, chances):
    """As `select.rs`: the set of likeliest blocks with the best expected mean."""
    words = numpy.maximum(words, 1)
    order = numpy.argsort(-chances, kind="stable")
    kept = numpy.cumsum(words[order])
    right = numpy.cumsum((words * chances)[order])
    mean = 2 * right / (kept + (words * chances).sum())
    keep = numpy.zeros(len(words), bool)
    if len(words):
        keep[order[:mean.argmax() + 1]] = True
    return keep


def holds(words, passage):
    """Whether a run of words has a passage."""
    return f" {' '.join(passage)} " in f" {' '.join(words)} "


def passages(blocks, about):
    """What passages say of each block: 1, 0, or nothing (nan)."""
    known = numpy.full(len(blocks), numpy.nan)
    for key, value in (("without", 0.0), ("with", 1.0)):
        for passage in about.get(key) or ():
            words = tokens(passage)
            for at, block in enumerate(blocks):
                if block and words and (holds(block, words) or (len(block) > 3 and holds(words, block))):
                    known[at] = value
    return known


def agrees(words, about):
    """Whether a chosen text has the passages that it should have, and no others."""
    wanted, unwanted = ([tokens(passage) for passage in about.get(key) or ()] for key in ("with", "without"))
    return all(holds(words, passage) for passage in wanted) and not any(holds(words, passage) for passage in unwanted)


def report(name, ids, pages, blocks, keep):
    """Prints the mean F1 of each source with gold, and the share of pages with all passages right."""
    scores = defaultdict(list)
    for page in ids:
        about = pages[page]
        predicted = [word for words, kept in zip(blocks[page], keep[page]) if kept for word in words]
        if "text" in about:
            scores[about["source"]].append(f1(predicted, tokens(about["text"])))
        elif about["source"] == "trafilatura":
            right = [holds(predicted, tokens(passage)) for passage in about["with"]]
            wrong = [holds(predicted, tokens(passage)) for passage in about["without"]]
            scores["passages had"].append(numpy.mean(right or [1]))
            scores["passages not had"].append(1 - numpy.mean(wrong or [0]))
            scores["all passages right"].append(agrees(predicted, about))
        else:
            scores[about["source"] + " (marks)"].append(f1(predicted, tokens(about.get("marked"))))
    print(name, " ".join(f"| {source} {numpy.mean(found):.4f}" for source, found in scores.items()), flush=True)


def report_shares(ids, pages, blocks, sizes, said):
    """Prints the mean F1 on the pages with gold by the limit `SHARE_MIN` of `lib.rs`, which is chosen by it."""
    for limit in (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        scores = []
        for page in ids:
            if "text" not in pages[page]:
                continue
            chances, words = numpy.array(said[page]["first"]), numpy.maximum(sizes[page], 1)
            keep = choose(words, chances)
            keep &= chances > limit * (chances * words)[keep].sum() / words[keep].sum()
            predicted = [word for own, kept in zip(blocks[page], keep) if kept for word in own]
            scores.append(f1(predicted, tokens(pages[page]["text"])))
        print("share", limit, "F1", numpy.mean(scores), flush=True)


def forest(dump, trees):
    """A forest as bytes: for every tree its nodes in order of a walk, the smaller side next."""
    nodes, roots = [], []

    def write(node):
        at = len(nodes)
        if "leaf_value" in node:
            nodes.append((0, 0, node["leaf_value"]))
            return
        assert node["decision_type"] == "<="
        nodes.append(None)
        write(node["left_child"])
        below = len(nodes) - at
        limit = numpy.float32(node["threshold"])
        if float(limit) > node["threshold"]:
            limit = numpy.nextafter(limit, numpy.float32(-numpy.inf))
        nodes[at] = (node["split_feature"], below, float(limit))
        write(node["right_child"])

    for tree in trees:
        roots.append(len(nodes))
        write(tree["tree_structure"])
    width = dump["max_feature_idx"] + 1
    data = struct.pack("<III", width, len(roots), len(nodes)) + struct.pack(f"<{len(roots)}I", *roots)
    return data + b"".join(struct.pack("<HHf", *node) for node in nodes)


def main():
    data, work, program, model = (Path(argument) for argument in sys.argv[1:])
    pages = json.loads((data / "truth.json").read_text())
    work.mkdir(exist_ok=True)
    urls = work / "urls.json"
    urls.write_text(json.dumps({page: about["url"] for page, about in pages.items()}))
    blocks, kinds = {}, {}
    for note, _ in rows(program, data / "html", urls, "-", work / "pages.bin"):
        if note["texts"]:
            blocks[note["id"]] = [tokens(text) for text in note["texts"]]
            kinds[note["id"]] = int(numpy.argmax(note["kinds"]))
    ids = sorted(blocks)
    for source in TRUST:
        own = [page for page in ids if pages[page]["source"] == source]
        print(source, len(own), {KINDS[kind]: count for kind, count in Counter(kinds[page] for page in own).most_common()})
    sites = [".".join(urlsplit(pages[page]["url"]).netloc.removeprefix("www.").split(".")[-2:])
             or pages[page].get("group") or page for page in ids]
    names = sorted(set(sites))
    numpy.random.RandomState(1).shuffle(names)
    fold = {name: at % FOLDS for at, name in enumerate(names)}
    fold = numpy.array([fold[site] for site in sites])

    sizes = {page: numpy.array([len(words) for words in blocks[page]], float) for page in ids}
    seen = defaultdict(Counter)
    for page in ids:
        if group := pages[page].get("group"):
            seen[group].update({tuple(words) for words in blocks[page]})
    shares, known = {}, {}
    for page in ids:
        about = pages[page]
        known[page] = numpy.ones(len(blocks[page]))
        if "text" in about:
            shares[page] = numpy.array(label(blocks[page], tokens(about["text"])))
            continue
        told = passages(blocks[page], about)
        shares[page] = numpy.nan_to_num(told, nan=0.0)
        known[page] = ~numpy.isnan(told) * 1.0
        if about.get("marked"):
            by_marks = numpy.array(label(blocks[page], tokens(about["marked"])))
            if group := about.get("group"):
                by_marks = numpy.array([0.0 if seen[group][tuple(words)] > 1 else share
                                        for words, share in zip(blocks[page], by_marks)])
            if "with" in about:
                # Marks only say what is outside of the text of these pages.
                outside = numpy.isnan(told) & (by_marks < 0.1)
                known[page][outside] = 1.0
            else:
                shares[page], known[page] = by_marks, numpy.ones(len(by_marks))
    ends = numpy.cumsum([len(blocks[page]) for page in ids])
    page_of = numpy.concatenate([numpy.full(len(blocks[page]), at) for at, page in enumerate(ids)])
    first_rows = None
    for attempt in (1, 2):
        target = numpy.concatenate([shares[page] for page in ids])
        # A short block weighs a little more than its words: dates and names stand in many short texts.
        weight = []
        for page in ids:
            text = max((sizes[page] * shares[page]).sum(), 80)
            own = numpy.minimum((sizes[page] + 2) / text, 3.0) + 1e-4
            weight.append(own * known[page] * TRUST[pages[page]["source"]])
        weight = numpy.concatenate(weight)
        # Blocks with little weight are drawn by chance, and the drawn ones weigh more.
        likely = numpy.minimum(1.0, weight / numpy.quantile(weight[weight > 0], 0.8))
        drawn = numpy.random.RandomState(2).random_sample(len(weight)) < likely
        weight = weight / numpy.maximum(likely, 1e-9)
        print("blocks", len(weight), "known", int((likely > 0).sum()), "drawn", drawn.sum(), flush=True)
        said = {page: {} for page in ids}
        models = []
        for name, trees in (("first", FIRST_TREES), ("second", SECOND_TREES)):
            if name == "first" and first_rows is not None:
                table = first_rows
            else:
                (work / "chances.json").write_text(json.dumps(said))
                made = rows(program, data / "html", urls, work / "chances.json", work / "rows.bin")
                parts = {note["id"]: values for note, values in made}
                width = max(values.shape[1] if values.ndim == 2 else 0 for values in parts.values())
                table = numpy.concatenate([parts.pop(page).reshape(-1, width) for page in ids])
                first_rows = table if name == "first" else first_rows
            print(name, table.shape, flush=True)
            found = numpy.zeros(len(table))
            # The draft learns in few large steps.
            settings, count = (dict(BLOCK, learning_rate=0.2), DRAFT_TREES) if attempt == 1 else (BLOCK, trees)
            for held in range(FOLDS):
                inside = fold[page_of] == held
                used = ~inside & drawn
                part = lightgbm.Dataset(table[used], target[used], weight=weight[used])
                found[inside] = lightgbm.train(settings, part, count).predict(table[inside])
            for page, end in zip(ids, ends):
                said[page]["first"] = [round(float(c), 6) for c in found[end - len(blocks[page]):end]]
            keep = {page: choose(sizes[page], numpy.array(said[page]["first"])) for page in ids}
            report(f"{attempt} {name}", ids, pages, blocks, keep)
            if attempt == 1:
                # The second forests are not needed to choose the texts of pages with passages.
                break
            models.append(lightgbm.train(BLOCK, lightgbm.Dataset(table[drawn], target[drawn], weight=weight[drawn]), trees))
        if attempt == 1:
            taken = 0
            for page in ids:
                about = pages[page]
                if about["source"] != "trafilatura" or not about["with"]:
                    continue
                text = [word for words, kept in zip(blocks[page], keep[page]) if kept for word in words]
                if agrees(text, about):
                    taken += 1
                    told = known[page] > 0
                    shares[page] = numpy.where(told, shares[page], keep[page] * 1.0)
                    known[page][:] = 1.0
            print("pages with passages whose choice is taken", taken)
    report_shares(ids, pages, blocks, sizes, said)
    (work / "last.json").write_text(json.dumps(said))
    data = b""
    for made in models:
        dump = made.dump_model()
        data += forest(dump, dump["tree_info"])
    model.write_bytes(data)
    print("bytes", model.stat().st_size)


if __name__ == "__main__":
    main()
