"""Follows every link of one site. What Scrapy keeps in JOBDIR is what it goes on with."""

from urllib.parse import urlsplit

import scrapy


class Site(scrapy.Spider):
    name = "site"
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, home, **more):
        super().__init__(**more)
        self.start_urls = [home]
        self.allowed_domains = [urlsplit(home).hostname]

    def parse(self, response):
        yield from response.follow_all(css="a")
