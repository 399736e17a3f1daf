"""Training data from a crawl: the main texts of pages whose sites do not forbid it, each text once, as JSON lines.

python training_data.py docs > texts.jsonl     # a crawl folder, or s3://BUCKET/PREFIX; needs tables and `handler.text = "all"`
"""

import hashlib
import json
import sys

import nephila

PLACE = ["url", "fetch_time", "language", "warc_filename", "warc_record_offset", "warc_record_length"]
WORDS_MIN = 20


def main(where: str) -> None:
    crawl = nephila.open(where)
    usage = nephila.USAGE_COLUMNS["train-ai"]
    seen: set[bytes] = set()
    written = forbidden = without = 0
    for row in crawl.rows(subset="warc", mime="text/html", columns=[*PLACE, *usage]):
        if not nephila.allows(row, "train-ai"):  # unsaid=False: only pages whose sites agreed
            forbidden += 1
            continue
        text = crawl.main_text(row) or ""
        digest = hashlib.sha256(text.encode()).digest()
        if len(text.split()) < WORDS_MIN or digest in seen:
            without += 1
            continue
        seen.add(digest)
        written += 1
        line = {"url": row["url"], "time": row["fetch_time"].isoformat(), "language": row["language"], "text": text}
        print(json.dumps(line, ensure_ascii=False))
    print(f"{written} texts; {forbidden} pages are reserved, {without} have no new text", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
