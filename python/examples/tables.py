"""The tables of a crawl with pandas and DuckDB: a notebook as a script, cell by cell (`# %%`).

    python tables.py docs        # a crawl folder, or s3://BUCKET/PREFIX

Needs `pip install nephila pandas duckdb`, and the tables: `nephila export parquet -o docs`.
"""

# %% Open the crawl. Nothing is read yet.
import sys

import duckdb
import pandas

import nephila

crawl = nephila.open(sys.argv[1] if len(sys.argv) > 1 else "docs")
captures = crawl.dataset("captures")
links = crawl.dataset("links")
pandas.set_option("display.width", 160, "display.max_colwidth", 60)

# %% pandas: how did the fetches end?
frame = crawl.captures(columns=["url", "url_host_name", "fetch_status", "fetch_time", "subset"]).to_pandas()
print(frame.groupby(["subset", "fetch_status"]).size().rename("captures").to_frame())

# %% Pages per host.
print(frame[frame.subset == "warc"].groupby("url_host_name").size().nlargest(10).rename("pages").to_frame())

# %% DuckDB reads the same datasets in streams, also those that exceed the memory.
broken = duckdb.execute("""
    SELECT l.source, l.anchor, l.target
    FROM links l JOIN captures c ON c.url = l.target
    WHERE c.fetch_status = 404
    ORDER BY ALL
""").df()
print(f"{len(broken)} links lead to pages that are not there")
print(broken.head(10).to_string(index=False))

# %% Which pages get the most links from others?
print(
    duckdb.execute("""
    SELECT target, count(DISTINCT source) AS sources FROM links
    WHERE kind = 'link' AND source <> target GROUP BY 1 ORDER BY sources DESC, target LIMIT 5
""").df()
)

# %% What do sites say about the use of their pages? Empty: nothing.
said = crawl.captures(subset="warc", columns=["usage_train_ai", "usage_search", "usage_tdm"]).to_pandas()
print(said.astype("string").fillna("nothing").value_counts().rename("pages").to_frame())

# %% From a row to the page: the longest text.
longest = duckdb.execute("""
    SELECT url, title, text_length, warc_filename, warc_record_offset, warc_record_length
    FROM captures WHERE subset = 'warc' ORDER BY text_length DESC NULLS LAST, url LIMIT 1
""").df()
row = longest.iloc[0]
page = crawl.read(row)
print(page, page.mime, f"{len(page.body)} bytes of HTML")
print((crawl.main_text(row) or page.text)[:200])
