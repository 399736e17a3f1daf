// The module of the program beside it. Both are copied into the cache folder and built there.
module peer-colly

go 1.24.0

require github.com/gocolly/colly/v2 v2.3.0
