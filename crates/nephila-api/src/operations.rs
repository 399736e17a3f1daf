//! Operations that servers of several kinds have in common. Each kind lists those that it answers with its handlers.

use nephila_core::event::Kind as Event;
use nephila_engine::crawl::stage::SpiderSaid;
use nephila_engine::crawl::stream::StreamSaid;
use nephila_engine::settings::Role;
use nephila_engine::stop_list::DELAY_MS_MAX;

use super::archive_view::ArchiveSaid;
use super::explain::{Explained, HostView, StatsView};
use super::feeds::{FeedSaid, FeedsSaid};
use super::foreseen::VisitsSaid;
use super::history::HistorySaid;
use super::jobs::{JobDetail, JobRow};
use super::lists::{DownloadSaid, ListSaid, PAGE_MAX, StorySaid};
use super::log_view::LogSaid;
use super::operation::{Kind, Operation, Parameter, Verb, change, field, get, part, query};
use super::politeness::PolitenessSaid;
use super::scope_test::{ScopeTest, ScopeTested};
use super::search::{self, SearchSaid};
use super::settings_view::SettingsSaid;
use super::shapes;
use super::status::StatusSaid;
use super::timeline::TimelineSaid;
use super::views::{Added, Changed, NodeState};
use super::web::CDX_FIELDS;

/// The URL that a request is about.
const URL: Parameter = query("url", Kind::Url, "The URL, percent-encoded.").required();
/// Where a list goes on.
const FROM: Parameter =
    query("from", Kind::Cursor, "The cursor that the page before names; without it the first page.");
/// Waiting for an answer.
const WAIT: Parameter = query("wait", Kind::Time, "How long the request waits, such as `20s`.");
/// States of a host.
const HOST_STATES: &[&str] = &["busy", "ready", "resting", "backing_off", "loading", "stopped", "idle"];
/// Kinds of events.
const EVENT_KINDS: &[&str] = &names_of_kinds();

const fn names_of_kinds() -> [&'static str; Event::ALL.len()] {
    let (mut names, mut number) = ([""; Event::ALL.len()], 0);
    while number < names.len() {
        names[number] = Event::ALL[number].name();
        number += 1;
    }
    names
}

/// Types of a body of lines.
const LINE_TYPES: &[&str] = &["text/plain", "application/x-ndjson"];

/// `GET /livez`.
pub static LIVEZ: Operation =
    get("isLive", "/livez", "Whether the process lives.").tag("health").open().gives::<String>();
/// `GET /readyz`.
pub static READYZ: Operation = get(
    "isReady",
    "/readyz",
    "Whether requests are answered: `crawling` or `ready`. With `for=reads`, 503 while URLs are left to crawl.",
)
.tag("health")
.open()
.with(&[query("for", Kind::Word(&["reads"]), "Whether pages are to be read."), WAIT])
.gives::<NodeState>();
/// `GET /metrics`.
pub static METRICS: Operation = get("getMetrics", "/metrics", "Metrics of this process, for Prometheus.")
    .tag("health")
    .gives_text(&["text/plain"]);
/// `GET /api/v1/openapi.json`.
pub static DOCUMENT: Operation = get("getDocument", "/api/v1/openapi.json", "This document.")
    .tag("access")
    .gives_text(&["application/json"]);
/// `GET /api/v1/stats`.
pub static STATS: Operation =
    get("getStats", "/api/v1/stats", "Counters and gauges of this process.").gives::<StatsView>();
/// `GET /api/v1/explain`.
pub static EXPLAIN: Operation = get(
    "explainUrl",
    "/api/v1/explain",
    "What is known of a URL: whether it was or will be fetched, and the reason.",
)
.with(&[
    query("url", Kind::Text, "The URL, percent-encoded; text that is no URL is explained too.").required()
])
.gives::<Explained>();
/// `GET /api/v1/host`.
pub static HOST: Operation =
    get("getHost", "/api/v1/host", "What is known of a host; null for an unknown one.")
        .tag("hosts")
        .with(&[URL])
        .gives::<Option<HostView>>();
/// `POST /api/v1/host`.
pub static SET_HOST: Operation = change(
    Verb::Post,
    Role::Admin,
    "setHostDelay",
    "/api/v1/host",
    "Sets the crawl delay of a host; 0 takes the delay back.",
)
.tag("hosts")
.with(&[
    query("url", Kind::Url, "A URL of the host.").required(),
    query("delay_ms", Kind::Number(0, DELAY_MS_MAX as u64), "The delay in milliseconds.").required(),
])
.gives::<Changed>();
/// `GET /api/v1/stops`.
pub static STOPS: Operation =
    get("listStops", "/api/v1/stops", "The stop list.").tag("hosts").gives::<shapes::Stops>().rows("stops");
/// `POST /api/v1/stops`.
pub static ADD_STOPS: Operation = change(
    Verb::Post,
    Role::Admin,
    "addStops",
    "/api/v1/stops",
    "Stops hosts, domains or addresses, for all jobs.",
)
.tag("hosts")
.takes::<shapes::Stops>()
.gives::<Changed>();
/// `DELETE /api/v1/stops/{target}`.
pub static END_STOP: Operation =
    change(Verb::Delete, Role::Admin, "removeStop", "/api/v1/stops/{target}", "Takes a stop back.")
        .tag("hosts")
        .with(&[part("target", "The target, percent-encoded.")])
        .gives::<Changed>();
/// `GET /api/v1/feeds`.
pub static FEEDS: Operation = get("listFeeds", "/api/v1/feeds", "All feeds, each with its health.")
    .tag("feeds")
    .gives::<FeedsSaid>()
    .rows("feeds");
/// `GET /api/v1/feed`.
pub static FEED: Operation =
    get("getFeed", "/api/v1/feed", "A feed with its last polls; null for an unknown one.")
        .tag("feeds")
        .with(&[URL])
        .gives::<Option<FeedSaid>>();
/// `GET /api/v1/downloads`.
pub static DOWNLOADS: Operation = get("listDownloads", "/api/v1/downloads", "Downloads by state and type.")
    .with(&[
        query(
            "state",
            Kind::Word(&["pending", "fetching", "success", "error"]),
            "Only downloads in this state.",
        ),
        query("type", Kind::Word(&["content", "feed", "sitemap"]), "Only downloads of this type."),
        FROM,
        MAX,
    ])
    .gives::<ListSaid<DownloadSaid>>()
    .rows("rows");
/// `GET /api/v1/stories`.
pub static STORIES: Operation = get("listStories", "/api/v1/stories", "Stories of feeds, by source.")
    .tag("feeds")
    .with(&[query("source", Kind::Text, "Name of a source, or its domain."), FROM, MAX])
    .gives::<ListSaid<StorySaid>>()
    .rows("rows");
const MAX: Parameter = query("max", Kind::Number(1, PAGE_MAX as u64), "Maximum number of rows.");
/// `GET /api/v1/events`.
pub static EVENTS: Operation = get(
    "listEvents",
    "/api/v1/events",
    "A page of events as JSON lines; the last line has the next position.",
)
.tag("events")
.with(&[
    query("from", Kind::Text, "A position, `beginning` or `end`."),
    query("kind", Kind::Words(EVENT_KINDS), "Kinds of events; without it all."),
    WAIT,
])
.gives_text(&["application/x-ndjson"]);
/// `GET /api/v1/search`.
pub static SEARCH: Operation = get(
    "searchPages",
    "/api/v1/search",
    "Stored pages whose title and main text have all words of a search, the newest capture of each URL.",
)
.tag("archive")
.with(&[
    query(
        "q",
        Kind::Phrase,
        "Words, each in any case and also inside of others; words in quotation marks are one.",
    )
    .required(),
    query(
        "url",
        Kind::Text,
        "Only URLs of this pattern, such as `*.example.org` or `https://example.org/docs/*`.",
    ),
    query("limit", Kind::Number(1, search::HITS_MAX as u64), "Number of hits after which the answer ends."),
    CURSOR,
])
.gives::<SearchSaid>()
.rows("hits");
/// `GET /api/v1/pages`.
pub static PAGES: Operation = get("readPage", "/api/v1/pages", "The capture of a URL.")
    .tag("archive")
    .with(&[
        URL,
        query(
            "as",
            Kind::Word(&["http", "headers", "body", "record", "json", "found"]),
            "Representation; `http` is head and body.",
        ),
        query("at", Kind::Digits(4, 14), "The nearest capture to this time; without it the newest."),
        query("inline", Kind::Word(&["0", "1"]), "1: a body in an object store comes through this server."),
        query("bytes_max", Kind::Number(0, u64::MAX), "A longer body is answered with 413."),
        query(
            "with",
            Kind::Word(&["resources"]),
            "The page with the images and styles that it shows, as MHTML.",
        ),
    ])
    .gives_text(&[
        "application/http",
        "application/json",
        "application/octet-stream",
        "application/warc",
        "multipart/related",
        "text/plain",
    ])
    .or(&[(302, "The body is in an object store; `Location` names the address.")]);
/// `GET /api/v1/spiders`.
pub static SPIDERS: Operation = get("listSpiders", "/api/v1/spiders", "Remote spiders.")
    .tag("cluster")
    .gives::<Vec<SpiderSaid>>()
    .rows("");
/// `POST /api/v1/urls`.
pub static ADD: Operation = change(
    Verb::Post,
    Role::Operate,
    "addUrls",
    "/api/v1/urls",
    "Adds URLs, one per line, or JSON lines with `url`, `job`, `priority`, `hits`, `feed`, `sitemap`, `again`; at most 4 MiB.",
)
.tag("intake")
.with(&[
    query("job", Kind::Text, "The job; on one machine without it the crawl of the folder, `crawl`."),
    query("seed", Kind::Word(&["true", "false"]), "Whether the URLs are seeds."),
])
.takes_text(LINE_TYPES)
.gives::<Added>()
.status(202)
.or_gives::<Added>(200, "One machine: the URLs are stored.");
/// `POST /api/v1/reflog`.
pub static REFLOG: Operation = change(
    Verb::Post,
    Role::Operate,
    "addVisits",
    "/api/v1/reflog",
    "Adds lines of a stream of visited URLs, at most 4 MiB. The same batch counts once.",
)
.tag("intake")
.with(&[
    query("job", Kind::Text, "The job, in a cluster required."),
    query("batch", Kind::Text, "Id of the batch; without it, the content decides."),
    query("part", Kind::Number(0, u32::MAX as u64), "Number of the first part."),
    query("dry", Kind::Word(&["1"]), "One machine: only says which URLs would be sent on; nothing changes."),
])
.takes_text(LINE_TYPES)
.gives::<StreamSaid>()
.status(202)
.or_gives::<VisitsSaid>(
    200,
    "One machine: the lines are stored; with `dry`, the URLs that would be sent on.",
);
/// `GET /web/cdx`.
pub static CDX: Operation =
    get("lookUpCaptures", "/web/cdx", "Lines of the archive's index, as CDX servers give them.")
        .tag("archive")
        .with(&[
            query("url", Kind::Url, "The URL, or a pattern with `*`.").required(),
            query(
                "matchType",
                Kind::Word(&["exact", "prefix", "host", "domain"]),
                "Which URLs beside this one.",
            ),
            query("from", Kind::Digits(0, 14), "Captures from this time on."),
            query("to", Kind::Digits(0, 14), "Captures until this time."),
            query(
                "filter",
                Kind::Text,
                "Lines whose field has this value: `=status:200`, `!mime:image`, `~url:.*[.]pdf`.",
            )
            .repeated(),
            query("fl", Kind::Words(&CDX_FIELDS), "Fields of a line; without it all."),
            query("fields", Kind::Words(&CDX_FIELDS), "The same as `fl`."),
            query("sort", Kind::Word(&["default", "reverse", "closest"]), "The order; for one URL alone."),
            query("closest", Kind::Digits(0, 14), "The time to which the captures are nearest."),
            query("output", Kind::Word(&["cdxj", "json", "text"]), "Form of a line."),
            query("limit", Kind::Number(0, u64::MAX), "Maximum number of lines."),
            query("page", Kind::Number(0, u32::MAX as u64), "Number of the page, from 0."),
            query(
                "pageSize",
                Kind::Number(0, u32::MAX as u64),
                "Size of a page, in blocks of about 3,000 lines.",
            ),
            query("showNumPages", Kind::Text, "`true`: only the number of pages."),
        ])
        .gives_text(&["text/x-cdxj", "application/x-ndjson", "text/plain", "application/json"]);
/// `GET /web/{*address}`.
pub static WEB: Operation = get(
    "replayCapture",
    "/web/{*address}",
    "A capture by Memento (RFC 7089): `URL`, `20261115id_/URL` or `timemap/link/URL`. The rest of the path has its slashes as they are.",
)
.tag("archive")
.with(&[
    part("address", "Address of the capture."),
    field("accept-datetime", Kind::Date, "The wanted time, as a date of HTTP."),
])
.gives_text(&["*/*"])
.or(&[(302, "`Location` names the capture nearest to the time.")])
.or_capture();
/// `GET /replay`.
pub static REPLAY: Operation =
    get("browseArchive", "/replay", "Pages of the archive for people, with --replay.")
        .tag("archive")
        .with(&[
            query("url", Kind::Text, "The captured page; without it, a list."),
            query("at", Kind::Digits(0, 14), "The time of the capture."),
        ])
        .gives_text(&["text/html"]);

/// The number of rows of a page.
const LIMIT: Parameter = query("limit", Kind::Number(1, 1_000), "Maximum number of rows.");
/// Where a list goes on.
const CURSOR: Parameter =
    query("cursor", Kind::Cursor, "The cursor that the page before names; without it the first page.");
/// The name of a job.
pub const JOB_NAME: Parameter = part("job", "Name of the job.");

/// `GET /api/v1/status`.
pub static STATUS: Operation = get(
    "getStatus",
    "/api/v1/status",
    "What the crawl does and what holds it back: rates, queues, waits, disk, alarms, jobs.",
)
.gives::<StatusSaid>();
/// `GET /api/v1/history`.
pub static HISTORY: Operation = get(
    "getHistory",
    "/api/v1/history",
    "The last hour in steps of five seconds: pages by outcome, bytes, the frontier.",
)
.with(&[query("seconds", Kind::Number(1, 3_600), "How far back.")])
.gives::<HistorySaid>()
.rows("points");
/// `GET /api/v1/hosts`.
pub static HOSTS: Operation = get("listHosts", "/api/v1/hosts", "Hosts with their queues and states.")
    .tag("hosts")
    .with(&[
        query("sort", Kind::Word(&["queued", "done", "errors", "next"]), "The order."),
        query("state", Kind::Word(HOST_STATES), "Only hosts in this state."),
        query("match", Kind::Text, "Only hosts whose name contains this."),
        LIMIT,
        CURSOR,
    ])
    .gives::<super::hosts::HostsSaid>()
    .rows("hosts");
/// `GET /api/v1/host/timeline`.
pub static TIMELINE: Operation = get(
    "getTimeline",
    "/api/v1/host/timeline",
    "The last requests to a host, each with its gap and the promised gap.",
)
.tag("hosts")
.with(&[URL, LIMIT, CURSOR])
.gives::<TimelineSaid>()
.rows("requests");
/// `GET /api/v1/politeness`.
pub static POLITENESS: Operation = get(
    "getPoliteness",
    "/api/v1/politeness",
    "How well the promised gaps were kept, by the newest part of the log; for one host with `url`.",
)
.tag("hosts")
.with(&[query("url", Kind::Text, "A host, or a URL of the host.")])
.gives::<PolitenessSaid>();
/// `GET /api/v1/archive`.
pub static ARCHIVE: Operation =
    get("getArchive", "/api/v1/archive", "The files of the archive, its types, statuses and savings.")
        .tag("archive")
        .with(&[LIMIT, CURSOR])
        .gives::<ArchiveSaid>()
        .rows("files");
/// `GET /api/v1/settings`.
pub static SETTINGS: Operation = get(
    "getSettings",
    "/api/v1/settings",
    "The settings in force, each with its default and origin; secrets are not shown.",
)
.gives::<SettingsSaid>()
.rows("settings");
/// `GET /api/v1/log`.
pub static LOG: Operation = get("listLog", "/api/v1/log", "Lines of the crawl log, the newest first.")
    .with(&[
        query("host", Kind::Text, "Only requests to this host."),
        query("outcome", Kind::Text, "Only requests with this outcome.").repeated(),
        LIMIT,
        CURSOR,
    ])
    .gives::<LogSaid>()
    .rows("lines");
/// `POST /api/v1/scope/test`.
pub static SCOPE_TEST: Operation = change(
    Verb::Post,
    Role::Read,
    "testScope",
    "/api/v1/scope/test",
    "The verdict on URLs and the deciding rule, by the rules of a job or of the request. Nothing is queued.",
)
.tag("jobs")
.takes::<ScopeTest>()
.gives::<Vec<ScopeTested>>()
.rows("");
/// `GET /api/v1/jobs` on one machine.
pub static JOBS: Operation =
    get("listJobs", "/api/v1/jobs", "The crawl of the folder and further jobs, each with its progress.")
        .tag("jobs")
        .gives::<Vec<JobRow>>()
        .rows("");
/// `POST /api/v1/jobs` on one machine.
pub static CREATE_JOB: Operation = change(
    Verb::Post,
    Role::Operate,
    "createJob",
    "/api/v1/jobs",
    "Creates a further job beside the crawl of the folder, with 1 to 10,000 seeds.",
)
.tag("jobs")
.takes::<shapes::Job>()
.gives::<super::more_jobs::Created>()
.status(201);
/// `GET /api/v1/jobs/{job}` on one machine.
pub static JOB: Operation = get(
    "getJob",
    "/api/v1/jobs/{job}",
    "A job with its progress, its seeds, and its rules with examples of what they rejected.",
)
.tag("jobs")
.with(&[JOB_NAME])
.gives::<JobDetail>();
/// `POST /api/v1/jobs/{job}/pause`; on one machine with this answer.
pub const PAUSE_JOB: Operation =
    change(Verb::Post, Role::Operate, "pauseJob", "/api/v1/jobs/{job}/pause", "Pauses a job: its URLs wait.")
        .tag("jobs")
        .with(&[JOB_NAME])
        .gives::<JobDetail>();
/// `POST /api/v1/jobs/{job}/resume`; on one machine with this answer.
pub const RESUME_JOB: Operation =
    change(Verb::Post, Role::Operate, "resumeJob", "/api/v1/jobs/{job}/resume", "Resumes a job.")
        .tag("jobs")
        .with(&[JOB_NAME])
        .gives::<JobDetail>();
/// `POST /api/v1/jobs/{job}/stop`; on one machine with this answer.
pub const STOP_JOB: Operation = change(
    Verb::Post,
    Role::Operate,
    "stopJob",
    "/api/v1/jobs/{job}/stop",
    "Stops a job: discoveries are refused.",
)
.tag("jobs")
.with(&[JOB_NAME])
.gives::<JobDetail>();
