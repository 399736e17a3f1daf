"""Follows every link it finds under one top-level name, as fast as Scrapy can."""

import scrapy
from scrapy.linkextractors import LinkExtractor


class Everything(scrapy.Spider):
    name = "everything"
    custom_settings = {
        # What Scrapy's documentation advises for many domains, and no rests.
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        "DOWNLOAD_DELAY": 0,
        "REACTOR_THREADPOOL_MAXSIZE": 20,
        "DNSCACHE_SIZE": 100_000,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, home, under, **more):
        super().__init__(**more)
        self.start_urls = [home]
        self.allowed_domains = [under]
        self.links = LinkExtractor(allow_domains=[under])

    def parse(self, response):
        for link in self.links.extract_links(response):
            yield scrapy.Request(link.url)
