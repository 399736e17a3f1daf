"""Compares `nephila report near-duplicates` with the truth.

Usage: near.py NEPHILA PAGES  Prints a line per check; exits 1 if one begins with FAIL.

A site of PAGES articles is served. A third of them are copies of others: at another address, with another menu, date and
advertisement, and with up to one word in a hundred replaced. Among the rest are articles that share half of their
paragraphs with another one, which are no near-duplicates. Nephila crawls the site with main texts; a pair of pages counts
as found if both are in one group of the report.
"""

import collections
import html
import http.server
import json
import random
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading

FAILED = 0
SEED = 20261118
SECONDS_MAX = 600
RATE_MIN = 0.98
LINKS = 50


def say(is_right, text, lines=()):
    global FAILED
    FAILED += not is_right
    print(("ok    " if is_right else "FAIL  ") + text, flush=True)
    if not is_right:
        for line in list(lines)[:10]:
            print("      " + line)


def words_of_a_language():
    """Words as a language has them: few are frequent, many are rare."""
    syllables = [a + b for a in "bdfgklmnprstv" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    # Sorted: the order of a set differs from process to process, and the same seed is to give the same pages.
    words = sorted({"".join(random.choices(syllables, k=random.choice((1, 2, 2, 3, 3, 4)))) for _ in range(9000)})
    random.shuffle(words)
    return words, [1 / (rank + 10) for rank in range(len(words))]


class Author:
    def __init__(self):
        random.seed(SEED)
        self.words, self.weights = words_of_a_language()

    def paragraph(self):
        return random.choices(self.words, self.weights, k=random.randrange(40, 90))

    def article(self):
        return [self.paragraph() for _ in range(random.randrange(4, 9))]

    def copy(self, article):
        """The same article with up to one word in a hundred replaced."""
        article = [list(paragraph) for paragraph in article]
        count = sum(map(len, article))
        for _ in range(random.randrange(count // 100 + 1)):
            paragraph = random.choice(article)
            paragraph[random.randrange(len(paragraph))] = random.choice(self.words)
        return article

    def mixture(self, article):
        """Every second paragraph is of the article."""
        return [paragraph if at % 2 else self.paragraph() for at, paragraph in enumerate(article)]

    def sentences(self, paragraph):
        said = []
        for at in range(0, len(paragraph), 12):
            said.append(" ".join(paragraph[at:at + 12]).capitalize() + ".")
        return html.escape(" ".join(said))

    def page(self, number, count, article):
        title = " ".join(random.choices(self.words, k=4)).capitalize()
        menu = "".join('<li><a href="/">%s</a></li>' % word for word in random.choices(self.words, k=8))
        more = "".join('<a href="/page/%d">%d</a> ' % (next, next) for next in range(number * LINKS + 1, min(number * LINKS + LINKS + 1, count)))
        text = "\n".join("<p>%s</p>" % self.sentences(paragraph) for paragraph in article)
        return (
            "<!doctype html><html lang=en><title>%s</title><body><nav><ul>%s</ul></nav><article><h1>%s</h1>\n%s</article>"
            "<aside>%s</aside><footer>%s %s</footer></body></html>"
            % (title, menu, title, text, random.choice(self.words), random.randrange(1990, 2026), more)
        ).encode()


class Web(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = self.server.pages.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")


def make(count):
    """The pages, and the number of the article of each."""
    author = Author()
    articles, pages, truth = [], {}, {}
    for number in range(count):
        how = random.random()
        if articles and how < 1 / 3:
            of = random.randrange(len(articles))
            article = author.copy(articles[of])
        else:
            of = len(articles)
            article = author.mixture(random.choice(articles)) if articles and how < 1 / 2 else author.article()
            articles.append(article)
        path = "/page/%d" % number if number else "/"
        pages[path], truth[path] = author.page(number, count, article), of
    return pages, truth


def pairs(groups):
    """Number of pairs in groups of these sizes."""
    return sum(size * (size - 1) // 2 for size in groups)


def main():
    nephila, count = sys.argv[1], int(sys.argv[2])
    folder = tempfile.mkdtemp(prefix="near-")
    web = Web(("127.0.0.1", 0), Answers)
    web.pages, truth = make(count)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    site = "http://127.0.0.1:%d" % web.server_port
    try:
        command = [nephila, "crawl", site + "/", "-q", "-o", folder + "/site", "--config", "/dev/null", "--contact", "a@b.example",
                   "--delay", "0s", "--host-concurrency", "8", "--set", "handler.text=all", "--set", "tables.write=true"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
        say(done.returncode == 0, "nephila crawls %d pages with their texts" % count, (done.stdout + done.stderr).splitlines())
        command = [nephila, "report", "near-duplicates", "--format", "json", "-o", folder + "/site"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        say(done.returncode == 0, "nephila reports near-duplicates", done.stderr.splitlines())
        found, both = collections.Counter(), collections.Counter()
        for line in done.stdout.splitlines():
            row = json.loads(line)
            found[row["group"]] += 1
            both[row["group"], truth[row["url"][len(site):]]] += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    true, said, right = (pairs(groups) for groups in (collections.Counter(truth.values()).values(), found.values(), both.values()))
    recall, precision = right / true, right / max(said, 1)
    say(recall >= RATE_MIN, "recall %.4f: %d of %d pairs are found" % (recall, right, true))
    say(precision >= RATE_MIN, "precision %.4f: %d of %d found pairs are right" % (precision, right, said))
    print("near-duplicates: %d pages, %d pairs, recall %.4f, precision %.4f" % (count, true, recall, precision))
    sys.exit(1 if FAILED else 0)


main()
