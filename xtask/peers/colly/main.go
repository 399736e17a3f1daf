// Follows every link under one top-level name, as fast as colly can, and keeps nothing.
package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/gocolly/colly/v2"
)

const connections = 64

func main() {
	home, under := os.Args[1], os.Args[2]
	collector := colly.NewCollector(
		colly.Async(true),
		colly.UserAgent("colly"),
		colly.URLFilters(regexp.MustCompile(`^https?://[^/]+\.`+regexp.QuoteMeta(under)+`(:\d+)?(/|$)`)),
	)
	collector.IgnoreRobotsTxt = false
	collector.DisableCookies()
	collector.SetRequestTimeout(30 * time.Second)
	// Go's own transport keeps two connections to a host, and one that is changed asks for HTTP/2 only if told to.
	collector.WithTransport(&http.Transport{
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: connections,
	})
	if err := collector.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: connections}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	collector.OnHTML("a[href]", func(link *colly.HTMLElement) {
		// Known URLs and those that robots.txt closes are errors here.
		_ = link.Request.Visit(link.Attr("href"))
	})
	if err := collector.Visit(home); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	collector.Wait()
}
