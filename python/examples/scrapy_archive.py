"""A Scrapy spider over an archive: pages come from a crawl of Nephila, and no site is asked.

    python scrapy_archive.py docs https://docs.example.org/ titles.jsonl

`ArchiveMiddleware` works with any spider: name it in DOWNLOADER_MIDDLEWARES, and the crawl in NEPHILA_CRAWL. A spider can
then be developed and run again and again without a request. Needs `pip install nephila scrapy`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.responsetypes import responsetypes

import nephila


class ArchiveMiddleware:
    """Answers every request from the archive. A URL without a capture is ignored, and counted."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.crawl = nephila.open(crawler.settings["NEPHILA_CRAWL"])

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ArchiveMiddleware:
        return cls(crawler)

    def process_request(self, request: scrapy.Request) -> Response:
        try:
            capture = self.crawl.read(request.url)
            body = capture.body
        except nephila.Error as error:
            self.crawler.stats.inc_value(f"archive/{type(error).__name__}")
            raise IgnoreRequest(str(error)) from error
        # The body has no content coding any more.
        fields = [(name, value) for name, value in capture.headers.items() if name.lower() != "content-encoding"]
        headers = Headers(fields)
        kind = responsetypes.from_args(headers=headers, url=request.url, body=body)
        response: Response = kind(request.url, status=capture.status or 200, headers=headers, body=body)
        return response.replace(flags=["archived", f"{capture.time:%Y-%m-%dT%H:%M:%SZ}"])


class TitleSpider(scrapy.Spider):
    """Follows the links of a site; an item is a page with its title."""

    name = "titles"
    start_url: str

    async def start(self) -> Any:
        yield scrapy.Request(self.start_url)

    def parse(self, response: Response) -> Iterator[Any]:
        if not isinstance(response, HtmlResponse):
            return
        yield {"url": response.url, "title": response.css("title::text").get(), "time": response.flags[1]}
        for link in response.css("a::attr(href)").getall():
            target = response.urljoin(link)
            if target.startswith(self.start_url):
                yield scrapy.Request(target)


def main() -> None:
    crawl, start_url, output = sys.argv[1:]
    process = CrawlerProcess(
        {
            "NEPHILA_CRAWL": crawl,
            "DOWNLOADER_MIDDLEWARES": {ArchiveMiddleware: 950},
            "FEEDS": {output: {"format": "jsonlines", "overwrite": True}},
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "WARNING",
        }
    )
    process.crawl(TitleSpider, start_url=start_url)
    process.start()


if __name__ == "__main__":
    main()
