//! Resolves flags, settings and the remembered plan of a folder into the plan of a crawl.

use std::collections::HashSet;
use std::io::{BufRead, IsTerminal, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use http::header::{HeaderName, HeaderValue};
use nephila_core::feed::opml::Outline;
use nephila_core::job::{Job, Kind, SEEDS_MAX};
use nephila_core::spider::address::why_private;
use nephila_core::spider::door::{Doors, is_local_name};
use nephila_core::text::shown;
use nephila_core::url::{CrawlUrl, Host, UrlError};

use crate::cli::crawl::{CrawlArgs, HowArgs, WhatArgs};
use nephila_engine::crawl::shared::JOB;
use nephila_engine::crawl::typed::{typed, with_scheme};
use nephila_engine::crawl::work::FOREVER;
use nephila_engine::exit::Exit;
use nephila_engine::folder::{Folder, Judged, Plan};
use nephila_engine::introduce::{DISTURBS, disturbs};
use nephila_engine::reach::Reach;
use nephila_engine::settings::{self, Credential, Settings, usage};

/// The settings and the plan of a crawl.
#[derive(Debug)]
pub(crate) struct ResolvedCrawl {
    pub(crate) settings: Settings,
    pub(crate) plan: Plan,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
    /// The typed URLs: their addresses and ports are permitted.
    pub(crate) typed: Vec<CrawlUrl>,
}

/// The plan of `nephila crawl` in this folder.
pub(crate) fn crawl(args: &CrawlArgs, folder: &Folder) -> anyhow::Result<ResolvedCrawl> {
    let remembered = folder.plan()?;
    let mut plan = match remembered {
        Some(mut plan) => {
            // A folder of an older version: the rules of the judged archive are in its plan and its settings.
            let judged = || Judged::of(&plan.job.scope, &handler_before(folder));
            plan.judged = Some(plan.judged.clone().unwrap_or_else(judged));
            plan
        }
        None if args.urls.is_empty()
            && args.seeds.is_empty()
            && args.feeds.is_empty()
            && !folder.has_feeds() =>
        {
            return Err(usage(anyhow::anyhow!(
                "no URL, and {} holds no crawl to go on with: give URLs, `-i FILE`, or `-`",
                folder.dir().display()
            )));
        }
        None => new_plan(),
    };
    let given = add_seeds(&mut plan, &args.urls, &args.seeds)?;
    set_scope(&mut plan.job, &args.what);
    let limits = &mut plan.job.limits;
    limits.pages_max = args.limit.unwrap_or(limits.pages_max);
    limits.bytes_max = args.size_limit.unwrap_or(limits.bytes_max);
    limits.time_max = args.time_limit.unwrap_or(limits.time_max);
    limits.pages_per_host_max = args.limit_per_host.unwrap_or(limits.pages_per_host_max);
    limits.pages_per_domain_max = args.limit_per_domain.unwrap_or(limits.pages_per_domain_max);
    let before = folder.settings();
    let before = (args.how.common.config.is_none() && before.is_file()).then_some(before);
    if let Some(kept) = &before
        && let Some(changed) = settings::changed_after(kept)
    {
        eprintln!(
            "nephila: {} was changed after the last run and is not read: this crawl goes on with the settings of its folder, \
             {}; `--config {0}` takes the file instead, `--set KEY=VALUE` changes one setting",
            shown(&changed.display().to_string()),
            shown(&kept.display().to_string()),
        );
    }
    if !args.feeds.is_empty() {
        let parse = |text: &String| {
            let url =
                CrawlUrl::parse(&with_scheme(text)).with_context(|| format!("{text:?}")).map_err(usage)?;
            Ok(Outline::new(url))
        };
        folder.add_feeds(&args.feeds.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?)?;
    }
    let feeds: Vec<String> = folder.feeds()?.iter().map(|feed| feed.url.as_str().to_owned()).collect();
    let typed = typed(args.urls.iter().chain(&args.feeds));
    let said = Said { feeds: &feeds, doors: folder.doors()?, typed, given };
    if let (Some(one), false) = (said.given.first(), args.quiet) {
        eprintln!(
            "nephila: the password of {} at {} is used now and kept nowhere: to go on without typing it, put it into \
             [[credentials]] of nephila.toml",
            shown(&one.user),
            one.origin
        );
    }
    let mut resolved = finish(plan, before, said, &args.what, &args.how)?;
    resolved.settings.crawl.wait_max = args.wait_max.unwrap_or(resolved.settings.crawl.wait_max);
    if args.forever {
        resolved.settings.crawl.retry_wait_max = FOREVER;
    }
    Ok(resolved)
}

/// The plan of `nephila map`.
pub(crate) fn map(
    urls: &[String],
    seeds: &[PathBuf],
    what: &WhatArgs,
    how: &HowArgs,
) -> anyhow::Result<ResolvedCrawl> {
    let mut plan = new_plan();
    let given = add_seeds(&mut plan, urls, seeds)?;
    set_scope(&mut plan.job, what);
    let said = Said { feeds: &[], doors: Doors::default(), typed: typed(urls), given };
    finish(plan, None, said, what, how)
}

/// The job of `nephila job create`.
pub(crate) fn job(name: &str, urls: &[String], seeds: &[PathBuf], what: &WhatArgs) -> anyhow::Result<Job> {
    let mut plan = new_plan();
    plan.job.name = name.to_owned();
    if let Some(one) = add_seeds(&mut plan, urls, seeds)?.first() {
        eprintln!(
            "nephila: the password for {} is not sent to the cluster: put it into [[credentials]] of its nodes",
            one.origin
        );
    }
    set_scope(&mut plan.job, what);
    plan.job.check().map_err(|error| usage(error.into()))?;
    Ok(plan.job)
}

/// The settings for parsing at the last crawl of the folder.
pub(crate) fn handler_before(folder: &Folder) -> settings::Handler {
    before(folder).handler
}

/// The settings of the archive at the last crawl of the folder.
pub(crate) fn store_before(folder: &Folder) -> nephila_store::archive::Settings {
    before(folder).store
}

/// The settings at the last crawl of the folder; the defaults, if not recorded.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Before {
    handler: settings::Handler,
    store: nephila_store::archive::Settings,
}

fn before(folder: &Folder) -> Before {
    let text = std::fs::read_to_string(folder.settings()).unwrap_or_default();
    toml::from_str(&text).unwrap_or_default()
}

fn new_plan() -> Plan {
    Plan::of(Job::new(JOB, "crawl"))
}

/// Further input about a crawl.
struct Said<'a> {
    /// The feeds that are followed.
    feeds: &'a [String],
    /// URLs typed in earlier runs.
    doors: Doors,
    /// URLs typed now.
    typed: Vec<CrawlUrl>,
    /// Names and passwords from URLs.
    given: Vec<Credential>,
}

fn finish(
    mut plan: Plan,
    before: Option<PathBuf>,
    Said { feeds, mut doors, typed, given }: Said<'_>,
    what: &WhatArgs,
    how: &HowArgs,
) -> anyhow::Result<ResolvedCrawl> {
    plan.job.check().map_err(|error| usage(error.into()))?;
    let mut settings = how.common.load_from(before.as_deref())?;
    set_settings(&mut settings, what, how);
    settings.credentials.retain(|known| !given.iter().any(|given| given.origin == known.origin));
    settings.credentials.extend(given);
    plan.settle(&mut settings);
    let reach = Reach::new(&settings.spider);
    for url in &typed {
        reach.check_typed(url).map_err(|why| usage(anyhow::anyhow!("{}: {why}", url.as_str())))?;
        doors.open(url);
    }
    say_closed(&Reach::with_doors(&settings.spider, doors), plan.job.scope.seeds.iter().chain(feeds));
    let seeds = plan.job.scope.seeds.iter().chain(feeds).filter_map(|seed| CrawlUrl::parse(seed).ok());
    if seeds.into_iter().any(|seed| is_public(&seed, &settings)) {
        if settings.identity.contact.is_empty() {
            settings.identity.contact = ask_contact()?;
        }
        if disturbs(&settings) {
            return Err(usage(anyhow::anyhow!("{DISTURBS}")));
        }
    }
    let fields = how.headers.iter().map(|field| crate::fetch::parse_field(field));
    Ok(ResolvedCrawl { fields: fields.collect::<anyhow::Result<_>>()?, settings, plan, typed })
}

/// Reads seeds from arguments and files into the plan. Returns the names and passwords in these URLs.
fn add_seeds(plan: &mut Plan, urls: &[String], files: &[PathBuf]) -> anyhow::Result<Vec<Credential>> {
    let known: HashSet<String> = plan.job.scope.seeds.iter().cloned().collect();
    let mut seen = known;
    let mut given: Vec<Credential> = Vec::new();
    let mut add = |text: &str| -> anyhow::Result<()> {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let mut seed = with_scheme(text);
        // Credentials are for requests only, and are never written.
        if let Ok(url) = CrawlUrl::parse(&seed)
            && let Some((user, password)) = url.credentials()
        {
            let (origin, user) = (url.origin().to_owned(), user.to_owned());
            given.retain(|other| other.origin != origin);
            given.push(Credential { origin, user, password: Some(password.into()), ..Credential::default() });
            seed = url.as_str().to_owned();
        }
        if seen.insert(seed.clone()) {
            plan.job.scope.seeds.push(seed);
        }
        if plan.job.scope.seeds.len() > SEEDS_MAX {
            return Err(usage(anyhow::anyhow!(
                "more than {SEEDS_MAX} seeds: divide them among several crawls"
            )));
        }
        Ok(())
    };
    for url in urls {
        match url.as_str() {
            "-" => lines(Path::new("-"), &mut add)?,
            url => {
                let text = with_scheme(url.trim());
                CrawlUrl::parse(&text).map_err(|error| bad_url(&text, &error))?;
                add(url)?;
            }
        }
    }
    for file in files {
        lines(file, &mut add)?;
    }
    let bad: Vec<_> =
        plan.job.scope.seeds.iter().filter_map(|seed| Some((seed, CrawlUrl::parse(seed).err()?))).collect();
    if let Some((seed, error)) = bad.first() {
        if bad.len() == plan.job.scope.seeds.len() {
            return Err(usage(anyhow::anyhow!("{seed}: {error}")));
        }
        eprintln!("nephila: {} of the seeds cannot be fetched, the first is {seed}: {error}", bad.len());
    }
    Ok(given)
}

fn lines(path: &Path, add: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let unreadable = |error: std::io::Error| {
        anyhow::Error::new(Exit::Input).context(format!("{}: {error}", path.display()))
    };
    let reader: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::io::BufReader::new(std::fs::File::open(path).map_err(unreadable)?))
    };
    for line in reader.split(b'\n') {
        add(&String::from_utf8_lossy(&line.map_err(unreadable)?))?;
    }
    Ok(())
}

/// Why a typed URL cannot be fetched, with a suggestion.
fn bad_url(text: &str, error: &UrlError) -> anyhow::Error {
    let hint = match error {
        UrlError::Scheme(scheme) => {
            let rest = text.get(scheme.len()..).unwrap_or_default().trim_start_matches([':', '/']);
            format!("; only http and https are: did you mean http://{rest}?")
        }
        _ => String::new(),
    };
    usage(anyhow::anyhow!("{}: {error}{hint}", shown(text)))
}

fn set_scope(job: &mut Job, what: &WhatArgs) {
    let scope = &mut job.scope;
    scope.kind = what.scope.map_or(scope.kind, Kind::from);
    for (patterns, said) in [(&mut scope.include, &what.include), (&mut scope.exclude, &what.exclude)] {
        for pattern in said {
            if !patterns.contains(pattern) {
                patterns.push(pattern.clone());
            }
        }
    }
    scope.extra_hops = what.extra_hops.unwrap_or(scope.extra_hops);
    scope.depth_max = what.depth.unwrap_or(scope.depth_max);
}

fn set_settings(settings: &mut Settings, what: &WhatArgs, how: &HowArgs) {
    settings.handler.page_requisites |= what.page_requisites;
    settings.handler.sitemaps &= !what.no_sitemap;
    settings.crawl.concurrency = how.concurrency.unwrap_or(settings.crawl.concurrency).max(1);
    if let Some(delay) = how.delay {
        settings.set_host_delay(delay);
        if delay.is_zero() {
            // The user wants no delay and knows the server.
            settings.frontier.host_delay_factor = 0;
        }
    }
    if let Some(connections) = how.host_concurrency {
        settings.frontier.host_connections = connections.max(1);
        settings.frontier.slot_connections = settings.frontier.slot_connections.max(connections);
    }
    settings.robots.obey &= !how.ignore_robots;
    if let Some(contact) = &how.contact {
        settings.identity.contact.clone_from(contact);
    }
    if let Some(user_agent) = &how.user_agent {
        settings.identity.user_agent.clone_from(user_agent);
    }
    for (host, address) in &how.resolve {
        let fixed = format!("{host}={address}");
        if !settings.spider.dns_fixed.contains(&fixed) {
            settings.spider.dns_fixed.push(fixed);
        }
    }
}

/// Prints which of these URLs will be refused: a list permits no private address.
fn say_closed<'a>(reach: &Reach, urls: impl Iterator<Item = &'a String>) {
    let urls = urls.filter_map(|url| CrawlUrl::parse(url).ok());
    let mut closed = urls.filter_map(|url| reach.check(&url).err().map(|why| (url, why)));
    if let Some((url, why)) = closed.next() {
        eprintln!(
            "nephila: {} of the listed URLs will be refused, because nobody typed them and they are private; the first is \
             {}: {why}",
            1 + closed.count(),
            shown(url.as_str())
        );
    }
}

/// Whether this seed may lie on a public address. False for private and local ones, for addresses in `allow_addresses`,
/// and for names of a resolver on this machine.
fn is_public(seed: &CrawlUrl, settings: &Settings) -> bool {
    let opened = |address: &IpAddr| settings.spider.allow_addresses.iter().any(|open| open.contains(address));
    match seed.host() {
        Host::Ip(address) => why_private(address).is_none() && !opened(&address),
        Host::Name(name) if is_local_name(name) => false,
        Host::Name(name) => {
            let fixed = settings.spider.dns_fixed.iter().filter_map(|line| line.split_once('='));
            let fixed = fixed.filter(|(fixed, _)| fixed.trim().eq_ignore_ascii_case(name));
            let addresses: Vec<_> = fixed.filter_map(|(_, address)| address.trim().parse().ok()).collect();
            // A private resolver on the local machine may know private names.
            let own = !settings.spider.dns_servers.is_empty()
                && settings.spider.dns_servers.iter().all(|server| server.ip().is_loopback());
            !own && !(addresses.iter().any(opened))
        }
    }
}

/// Asks for a contact once on a terminal, and remembers the answer.
fn ask_contact() -> anyhow::Result<String> {
    const WANTED: &str = "a public site wants to know who asks";
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(usage(anyhow::anyhow!(
            "{WANTED}: add --contact URL|MAIL, or this line to nephila.toml under [identity]:\ncontact = \"https://example.org/about-my-crawler\""
        )));
    }
    eprint!("{WANTED}. A URL or mail address to reach you (kept for next time): ");
    std::io::stderr().flush().ok();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("reading the contact")?;
    let contact = line.trim();
    if contact.is_empty() || contact.contains(['"', '\\']) || !contact.contains(['@', '.']) {
        return Err(usage(anyhow::anyhow!("{contact:?} is neither a URL nor a mail address")));
    }
    match settings::remember_contact(contact) {
        Ok(path) => eprintln!("nephila: remembered in {}", path.display()),
        Err(error) => eprintln!("nephila: not remembered: {error:#}"),
    }
    Ok(contact.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(args: &[&str]) -> anyhow::Result<ResolvedCrawl> {
        use clap::Parser;
        let full = ["nephila", "crawl", "--config", "/dev/null"].iter().chain(args);
        let cli = crate::cli::Cli::parse_from(full);
        let crate::cli::Command::Crawl(args) = cli.command else { unreachable!("a crawl was asked for") };
        let dir = tempfile::tempdir().unwrap();
        crawl(&args, &Folder::new(dir.path()))
    }

    #[test]
    fn sec_03_only_what_is_typed_opens_an_address() {
        let said = resolved(&["http://127.0.0.1:8123/a/"]).unwrap();
        assert_eq!(said.settings.spider.allow_addresses, [], "no range is opened by it");
        assert!(!said.settings.spider.ports.contains(&8123), "and no port to others");
        assert_eq!(said.typed, [CrawlUrl::parse("http://127.0.0.1:8123/a/").unwrap()]);
        assert_eq!(said.plan.job.scope.seeds, ["http://127.0.0.1:8123/a/"]);
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "http://10.0.0.1/\nhttp://169.254.169.254/latest/\n").unwrap();
        let said = resolved(&["-i", list.path().to_str().unwrap()]).unwrap();
        assert_eq!((said.typed, said.settings.spider.allow_addresses), (vec![], vec![]));
        let error = resolved(&["http://169.254.169.254/latest/"]).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        assert!(format!("{error:#}").contains("spider.allow_addresses"), "{error:#}");
        let open = "spider.allow_addresses=[\"169.254.169.254/32\"]";
        assert!(resolved(&["http://169.254.169.254/latest/", "--set", open]).is_ok());
    }

    #[test]
    fn a_typed_public_address_is_no_less_public() {
        assert!(resolved(&["http://93.184.216.34/"]).is_err(), "it wants to know who asks");
    }

    #[test]
    fn a_public_seed_needs_a_contact() {
        let error = resolved(&["https://example.org/"]).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        assert!(format!("{error:#}").contains("--contact"));
        let said = resolved(&["example.org", "--contact", "me@example.org"]).unwrap();
        assert_eq!(said.plan.job.scope.seeds, ["https://example.org"]);
    }

    #[test]
    fn pol_12_a_public_seed_is_not_disturbed_unless_it_is_ones_own() {
        let rude =
            ["example.org", "--contact", "me@example.org", "--delay", "0s", "--host-concurrency", "100"];
        let error = resolved(&rude).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        assert!(format!("{error:#}").contains("crawl.own_sites"), "{error:#}");
        assert!(resolved(&[&rude[..], &["--set", "crawl.own_sites=true"]].concat()).is_ok());
        assert!(
            resolved(&["http://127.0.0.1:8123/", "--delay", "0s"]).is_ok(),
            "nobody else is disturbed there"
        );
    }

    #[test]
    fn limits_and_scope_are_as_said() {
        let resolved = resolved(&[
            "localhost:8000/x/",
            "--limit",
            "7",
            "--size-limit",
            "1MB",
            "--scope",
            "domain",
            "-d",
            "3",
            "--exclude",
            "/cart",
        ])
        .unwrap();
        let job = &resolved.plan.job;
        assert_eq!((job.limits.pages_max, job.limits.bytes_max, job.scope.depth_max), (7, 1_000_000, 3));
        assert_eq!((job.scope.kind, job.scope.exclude.len()), (Kind::Domain, 1));
        assert_eq!(job.scope.seeds, ["http://localhost:8000/x/"]);
    }

    #[test]
    fn fin_12_a_slip_in_the_scheme_is_no_host() {
        for (typed, meant_instead) in [
            ("htp:/foo", "http://foo"),
            ("htp://foo.test/x", "http://foo.test/x"),
            ("ftp://a.test/", "http://a.test/"),
        ] {
            let error = resolved(&[typed]).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
            assert!(format!("{error:#}").contains(meant_instead), "{error:#}");
        }
        assert!(resolved(&["mailto:me@a.test"]).is_err());
        for (typed, want) in [
            ("localhost:8000/x", "http://localhost:8000/x"),
            ("a.test:8080", "https://a.test:8080"),
            ("[::1]:8000", "https://[::1]:8000"),
            ("me:pw@a.test/x", "https://me:pw@a.test/x"),
            ("a.test/x:y", "https://a.test/x:y"),
        ] {
            assert_eq!(with_scheme(typed), want);
        }
    }

    #[test]
    fn nothing_to_do_is_said() {
        let error = resolved(&[]).unwrap_err();
        assert!(format!("{error:#}").contains("holds no crawl"), "{error:#}");
        assert!(resolved(&["http://"]).is_err());
    }
}
