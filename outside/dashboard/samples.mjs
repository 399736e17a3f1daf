// A made-up crawl: the answers of the API as a node gives them, with hostile strings wherever the web can put one.
// Numbers move on with `tick`, so that a page that follows can be told from a page that stands still.

import { ATTACKS } from './attacks.mjs';

const NODES = ['n1', 'n2', 'n3'];
const STATES = ['resting', 'ready', 'busy', 'backing_off', 'loading', 'stopped', 'idle'];
const OUTCOMES = [['ok', 'ok', 200], ['ok', 'ok', 200], ['redirect', 'ok', 302], ['not-found', 'gone', 404], ['rate-limited', 'retry', 429], ['dns-nxdomain', 'retry'], ['forbidden', 'refused', 403], ['server-error', 'retry', 500]];
const STEP_S = 5;
const PAGE_MAX = 1000;

export class World {
  constructor({ mode = 'single', hosts = 10_000, partitions = 64, hostile = true, name = 'n1' } = {}) {
    Object.assign(this, { mode, name, partitions, hostile, addresses: {}, attack: 0, alive: new Set(NODES), draining: new Set(), ticks: 0, refused: [] });
    this.started = Date.now() - 5_892_000;
    this.rate = 61.1;
    this.pages = 8112;
    this.job = { id: 1, name: 'press', scope: { kind: 'domain', seeds: ['https://news.example/', this.bad()], include: ['\\.pdf$'], exclude: ['/cart', '^https?://ads\\.'], extra_hops: 0, depth_max: 20 }, limits: { pages_max: 10_000, bytes_max: 0, time_max: '2h', pages_per_host_max: 0, pages_per_domain_max: 0 }, priority: 5, schedule: 'once', state: 'running' };
    this.stops = [{ target: '*.shop.example', reason: this.bad(), author: 'anna', at: this.started }, ...ATTACKS.map(({ text }) => ({ target: text.slice(0, 120), reason: 'mail', author: this.bad(), at: this.started }))];
    this.hosts = Array.from({ length: hosts }, (_, at) => this.host(at));
    this.lines = Array.from({ length: 3 * ATTACKS.length }, (_, at) => this.line(at, this.started + at * 700)).reverse();
    this.owners = Array.from({ length: partitions }, (_, at) => ({ partition: at, node: NODES[at % NODES.length], epoch: 1200 + at }));
  }

  /** The next hostile string, in turn. */
  bad(fallback = 'plain') {
    if (!this.hostile) return fallback;
    this.attack = (this.attack + 1) % ATTACKS.length;
    return ATTACKS[this.attack].text;
  }

  /** Goes on by a second. */
  tick() {
    this.ticks += 1;
    const isRunning = this.mode !== 'archive' && this.job.state === 'running';
    this.rate = isRunning ? 61 + Math.sin(this.ticks / 7) * 8 : 0;
    this.pages += Math.round(this.rate);
    if (!isRunning) return [];
    const lines = [this.line(this.ticks, Date.now()), this.line(this.ticks + 3, Date.now())];
    this.lines = [...[...lines].reverse(), ...this.lines].slice(0, PAGE_MAX);
    return lines;
  }

  /** What the holder of a link to a host sees. */
  publicHost() {
    const robots = { ...this.robots(), policy: 'it has rules', group: 'named', rules: 140, lines: ATTACKS.slice(0, 12).map(({ text }, at) => [at + 4, `Disallow: /${this.hostile ? text.slice(0, 1000) : at}`]) };
    const site = (scheme, state, sentence) => ({ origin: `${scheme}://news.example`, state, sentence, queued: 12_406, delay_ms: 2000, delay_why: 'the usual pause of this crawl', slow_lines: ['Crawl-delay: 10'], next: new Date(Date.now() + 1400).toISOString(), robots });
    const requests = this.timeline().requests.slice(0, 100).map((request, at) => ({ at_ms: request.at_ms, took_ms: request.took_ms, scheme: at % 7 ? 'https' : 'http', path: `/${at % 2 && this.hostile ? ATTACKS[(at >> 1) % ATTACKS.length].text : `a/${at}`}`, outcome: request.outcome, status: request.status, purpose: request.purpose ?? 'page', gap_ms: request.gap_ms, promised_ms: request.promised_ms }));
    return { host: 'news.example', now: new Date().toISOString(), crawler: this.crawler(), from: '2026-11-18T08:11:00Z', requests_total: 8203, robots_requests: 12, violations: 0, complete: false,
      sites: [site('https', 'open', 'URLs are requested one after the other, with the pause below between them.'), site('http', 'robots', 'robots.txt cannot be read, so nothing else is requested.')], requests, stop_lines: ['User-agent: Nephila', 'Disallow: /'], slow_lines: ['User-agent: Nephila', 'Crawl-delay: 10'] };
  }

  /** What the holder of a link to a job sees. */
  publicJob() {
    return { job: this.job.name, now: new Date().toISOString(), crawler: this.crawler(), state: this.job.state, begun: new Date(this.started).toISOString(), queued: 3_402_118, pages: this.pages, bytes: 981_223_118, ended_as: { ok: 7_612, redirect: 391, missing: 102, refused: 31, failed: 88 }, pages_per_s: 61.1, left_s: 55_681 };
  }

  crawler() {
    return { agent: 'Nephila', user_agent: `Mozilla/5.0 (compatible; Nephila/0.1.0; +${this.hostile ? ATTACKS[2].text : 'https://me.example/bot'})`, contact: this.hostile ? ATTACKS[8].text : 'https://me.example/bot' };
  }

  /** A node dies: its partitions lose their owner, and get another one some time later. */
  kill(name) {
    this.alive.delete(name);
    for (const owner of this.owners) if (owner.node === name) owner.node = undefined;
  }

  takeOver() {
    const left = [...this.alive];
    this.owners.filter((owner) => !owner.node).forEach((owner, at) => Object.assign(owner, { node: left[at % left.length], epoch: owner.epoch + 1 }));
  }

  host(at) {
    const state = STATES[at % STATES.length];
    const isOdd = at % 9 === 5;
    return { origin: isOdd ? `https://${this.bad('odd')}`.slice(0, 250) : `https://h${String(at).padStart(4, '0')}.example`, state, address: `198.51.${(at >> 8) & 255}.${at & 255}`, queued: Math.max(0, 400_000 - at * 37), later: at % 5, parked: at % 11 === 0 ? 88 : 0, done: 300 + at, errors: state === 'backing_off' ? 7 : at % 3, next_in_s: state === 'stopped' ? undefined : (at % 50) * 1.5, delay_s: 2, last_outcome: OUTCOMES[at % OUTCOMES.length][0], last_at: new Date(this.started + at * 100).toISOString(), stopped: state === 'stopped' ? this.bad() : '', robots: 'rules' };
  }

  line(at, time) {
    const [outcome, kind, status] = OUTCOMES[at % OUTCOMES.length];
    const attack = ATTACKS[at % ATTACKS.length].text;
    const url = !this.hostile || at % 3 === 0 ? `https://news.example/p/${at}` : at % 3 === 1 ? `http://evil.example/${attack}` : attack;
    return { at: new Date(time).toISOString(), at_ms: time, promised_ms: 2000, url, outcome, class: kind, status, took_ms: 40 + (at % 50) * 9, bytes: 14_000 + at, address: '198.51.100.7', purpose: at % 20 === 5 ? 'robots' : 'page', mime: at % 7 === 6 ? this.bad('text/html') : 'text/html', title: at % 2 ? this.bad('A title') : `Page ${at}`, redirect: outcome === 'redirect' ? this.bad('https://news.example/') : undefined, detail: outcome.startsWith('dns') ? this.bad('no such name') : undefined };
  }

  jobRow() {
    const { id, name, state, priority, scope } = this.job;
    return { id, name, state, priority, kind: scope.kind, seeds: 3, progress: { left: 412_331 - this.ticks, pages: this.pages, bytes: this.pages * 112_468 } };
  }

  status() {
    const isArchive = this.mode === 'archive';
    const zero = (value) => (isArchive ? 0 : value);
    const alarms = isArchive ? [] : [{ name: 'blocked', text: `31 % of the last requests were answered 429 or 5xx ${this.hostile ? ATTACKS[this.ticks % ATTACKS.length].text : ''}`, since: new Date(Date.now() - 500_000).toISOString() }];
    const paused = this.job.state !== 'running';
    const said = {
      version: '0.1.0', name: this.mode === 'cluster' ? this.name : 'press', mode: this.mode, now: new Date().toISOString(), started_at: new Date(this.started).toISOString(),
      state: isArchive ? 'archive' : paused ? 'ready' : 'crawling',
      sentence: isArchive ? 'This is a finished archive: it is read, and nothing is fetched.' : paused ? 'Nothing is fetched: the job is paused.' : `Fetching ${this.rate.toFixed(1)} pages/s; politeness holds it back: 214 hosts rest between two requests.`,
      limited_by: isArchive ? { reason: 'archive', detail: 'an archive is only read' } : paused ? { reason: 'paused', detail: 'all jobs are paused' } : { reason: 'politeness', detail: '214 hosts rest between two requests' },
      rates: { pages_per_s: zero(this.rate), bytes_per_s: zero(4_211_092.4), errors_per_s: zero(0.3) }, rates_60s: { pages_per_s: zero(59.8), bytes_per_s: zero(4_100_233.5), errors_per_s: zero(0.4) },
      frontier: { queued: zero(9_412_331 - this.ticks * 60), later: zero(1204), parked: zero(88), offers_waiting: zero(210), tickets_open: zero(24), hosts: { ready: zero(3), busy: zero(12), resting: zero(214), backing_off: zero(4), loading: zero(2) }, slots: { busy: zero(10), idle: zero(190) } },
      done: { pages: zero(this.pages), ok: zero(this.pages + 308), redirect: zero(612), missing: zero(301), refused: zero(41), failed: zero(77), robots: zero(236), bytes: zero(this.pages * 112_468), revisits: zero(12), saved_bytes: zero(920_011), written_bytes: zero(311_002_933) },
      stages: isArchive ? [] : [['fetch', 24, 256], ['store', 12, 512], ['read', 3 + (this.ticks % 3), 64], ['offer', 420, 65_536]].map(([name, length, capacity]) => ({ name, length, capacity })),
      waits: isArchive ? [] : [['politeness', 214], ['backoff', 4], ['robots', 1], ['dns', 2], ['connections', 3], ['answers', 12], ['store', 12], ['log', 1]].map(([what, tickets]) => ({ what, tickets })),
      disk: { free_bytes: 84_123_440_128, full_in_s: isArchive ? undefined : 772_911 }, alarms, jobs: isArchive ? [] : [this.jobRow()], drain_in_s: isArchive ? undefined : 6749,
    };
    if (this.mode === 'cluster') said.nodes = NODES.map((name) => (this.alive.has(name) ? { name, state: 'crawling', pages_per_s: this.rate / 3, queued: 130_000, alarms: name === 'n2' ? 1 : 0 } : { name, state: 'unknown', alarms: 1, error: `node ${name}: it does not answer: connection refused` }));
    return said;
  }

  history({ seconds = 3600 }) {
    const now = Math.floor(Date.now() / (STEP_S * 1000)) * STEP_S;
    const count = Math.min(720, Math.ceil(Number(seconds) / STEP_S));
    const points = Array.from({ length: count }, (_, at) => {
      const t = now - (count - 1 - at) * STEP_S;
      const wave = Math.sin(t / 300) * 30;
      return { t: new Date(t * 1000).toISOString().replace('.000', ''), pages: { ok: Math.round(250 + wave), redirect: 22 + (t % 7), client_error: 14 + (t % 5), server_error: t % 9 === 0 ? 30 : 6, failed: 8 }, bytes: 20_000_000 + Math.round(wave * 100_000), written_bytes: 8_000_000, queued: 9_412_331 + (3600 - count) * 20, later: 1200 + (t % 20), parked: 88, hosts_ready: 6 + Math.round(Math.sin(t / 200) * 4) };
    });
    return { step_s: STEP_S, points: this.mode === 'archive' ? [] : points };
  }

  hostList({ sort = 'queued', state = '', match = '', limit = 50, cursor = '' }) {
    const by = { queued: (a, b) => b.queued - a.queued, done: (a, b) => b.done - a.done, errors: (a, b) => b.errors - a.errors, next: (a, b) => (a.next_in_s ?? 1e9) - (b.next_in_s ?? 1e9) }[sort];
    const rows = this.hosts.filter((host) => (!state || host.state === state) && host.origin.includes(match)).sort(by);
    const from = Number(cursor) || 0;
    const next = from + Number(limit);
    return { hosts: rows.slice(from, next), cursor: next < rows.length ? String(next) : undefined, looked_at: this.hosts.length, complete: true };
  }

  robots() {
    return { policy: 'it has rules', rule: [7, `Disallow: /search ${this.bad('')}`], fetched: '2026-11-18T11:02:00Z', expires: '2026-11-19T11:02:00Z', crawl_delay_ms: 0 };
  }

  hostView(url) {
    return { origin: 'https://news.example', waiting: 412, parked: 0, later: 12, ended: 8112, failures: 0, delay_ms: 0, found: '2026-11-10T08:11:00Z', robots: { ...this.robots(), rule: [7, `Disallow: /${ATTACKS[3].text}`] }, held_by: ['its host rests for 1.2 s', ...(this.hostile ? ATTACKS.slice(0, 9).map(({ text }) => text) : [])], stopped: url.includes('stopped') ? this.bad('a mail') : '' };
  }

  timeline() {
    // The past does not change: a page that is open keeps its rows.
    const now = this.started + 5_880_000;
    let at = now;
    const requests = Array.from({ length: 200 }, (_, index) => {
      const took = 80 + (index % 40) * 6;
      const gap = 2003 + (index % 13) * 9 + (index === 25 ? 15_000 : 0);
      const [outcome, , status] = OUTCOMES[index % OUTCOMES.length];
      const line = { at_ms: at, took_ms: took, url: index < ATTACKS.length && this.hostile ? `http://evil.example/${ATTACKS[index].text}` : `https://news.example/p/${index}`, outcome, status, gap_ms: gap, promised_ms: index === 25 ? 15_000 : 2000, purpose: index === 4 ? 'robots' : 'page' };
      at -= gap + 80 + ((index + 1) % 40) * 6;
      return line;
    });
    return { origin: 'https://news.example', delay_s: 2, requests, cursor: 'outcomes-3:1839204', complete: true, read_bytes: 41_262 };
  }

  explain(url) {
    const scheme = /^https?:/i.test(url);
    if (!scheme) return { url, summary: 'bad-url', because: `neither http nor https: ${url.slice(0, 300)}`, held_by: [], retries: 0 };
    if (url.includes('unknown')) return { url, canonical: url, summary: 'unknown', because: 'nobody found it yet; it would be in scope', scope: { wanted: true, rule: 'scope=domain', origin: 'seed 1', job: 'press' }, retries: 0 };
    return { url, summary: 'robots', because: `robots.txt forbids it: line 7, Disallow: /search ${this.hostile ? ATTACKS[0].text : ''}`, canonical: `${url}&page=2`, scope: { wanted: true, rule: 'scope=domain', origin: 'seed 1', job: 'press' }, standing: 'it was never found', held_by: this.hostile ? ATTACKS.slice(4, 12).map(({ text }) => text) : [], robots: { policy: 'it has rules', rule: [7, 'Disallow: /search'], fetched: '2026-11-18T11:02:00Z', expires: '2026-11-19T11:02:00Z', crawl_delay_ms: 0 }, found: '2026-11-10T08:11:00Z', depth: 2, via: this.hostile ? ATTACKS[7].text : 'https://news.example/', hops: 'LL', retries: 0, last: { at: '2026-11-18T19:02:02Z', outcome: 'robots-denied', meaning: 'robots.txt forbids it' }, host: { ...this.hostView('x'), held_by: ['its host rests for 1.2 s'] } };
  }

  cdx() {
    return ATTACKS.map(({ text }, at) => ({ urlkey: 'example,news)/', timestamp: `2026${String(1 + (at % 11)).padStart(2, '0')}15103${at % 10}00`, url: at % 2 && this.hostile ? `http://evil.example/${text}` : at % 4 === 2 && this.hostile ? text : `https://news.example/p/${at}`, mime: at % 5 === 4 ? this.bad('text/html') : 'text/html', status: '200', digest: 'sha1:ABC', length: String(4000 + at), offset: '0', filename: `press-${at}.warc.gz` })).map((row) => JSON.stringify(row)).join('\n');
  }

  politeness() {
    const tightest = Array.from({ length: 40 }, (_, at) => ({ origin: this.hosts[at].origin, ratio_percent: 100, gap_ms: 2000 + at, promised_ms: 2000, requests: 40 + at, violations: 0, at: '2026-11-18T20:00:00Z' }));
    return { from: '2026-11-18T19:02:01Z', to: new Date().toISOString(), requests: 9811 + this.ticks, robots_requests: 236, violations: this.exceptions?.length ?? 0, exceptions: this.exceptions ?? [], tightest, histogram: [{ ratio_from: 0, ratio_to: 1, count: this.exceptions?.length ?? 0 }, ...[[1, 1.1, 7200], [1.1, 1.25, 900], [1.25, 1.5, 411], [1.5, 2, 322], [2, 4, 211], [4, 10, 61], [10, undefined, 17]].map(([ratio_from, ratio_to, count]) => ({ ratio_from, ratio_to, count }))], slots: Array.from({ length: 24 }, (_, at) => ({ address: at === 1 ? '2001:db8:1:2::/64' : `198.51.100.${at}`, hosts: 31 - at, requests: 801 - at * 9, violations: 0, gap_ms: 501 + at, promised_ms: 500 })), robots_unreachable: ATTACKS.map(({ text }, at) => ({ origin: `https://down${at}.example`, since: '2026-11-18T12:00:00Z', reason: this.hostile ? text : '503' })), parked: [{ origin: 'https://shop.example', parked: 8812 }], complete: true, skipped: 0 };
  }

  jobSaid() {
    const { progress } = this.jobRow();
    const seeds = ATTACKS.map(({ text }, at) => ({ url: this.hostile ? text : `https://s${at}.example/`, state: ['fetched', 'failed', 'queued'][at % 3], outcome: at % 3 === 1 ? 'dns-nxdomain' : 'ok', status: at % 3 ? undefined : 200, at: '2026-11-18T19:02:02Z' }));
    return { job: this.job, moved: ['https://www.news.example/'], seeds_total: seeds.length + 1, progress, seeds: [{ url: 'https://news.example/', state: 'fetched', outcome: 'ok', status: 200, at: '2026-11-18T19:02:02Z' }, ...seeds].slice(0, 100), rules: [{ rule: 'scope=domain', origin: 'seed 1', wanted: true, hits: 91_822, examples: [] }, { rule: 'exclude /cart', origin: 'exclude #1', wanted: false, hits: 5120, examples: this.hostile ? ATTACKS.slice(0, 20).map(({ text }) => text) : [] }, { rule: `exclude ${this.hostile ? ATTACKS[2].text : 'x'}`, origin: 'exclude #2', wanted: false, hits: 0, examples: [] }, { rule: 'scope=domain https://news.example/', origin: 'scope', wanted: false, hits: 401_200, examples: this.hostile ? ATTACKS.slice(20, 40).map(({ text }) => text) : [] }] };
  }

  scopeTest({ urls = [], scope }) {
    const exclude = (scope ?? this.job.scope).exclude;
    return urls.map((url) => {
      if (!/^https?:\/\//i.test(url)) return { url, verdict: 'bad', rule: 'no scheme', origin: 'url' };
      const hit = exclude.findIndex((pattern) => url.includes(pattern));
      if (hit >= 0) return { url, canonical: url, verdict: 'out', rule: `exclude ${exclude[hit]}`, origin: `exclude #${hit + 1}`, job: 'press' };
      return url.includes('news.example') ? { url, canonical: url, verdict: 'in', rule: 'scope=domain', origin: 'seed 1', robots_known: false, job: 'press' } : { url, canonical: url, verdict: 'out', rule: 'scope=domain https://news.example/', origin: 'scope', job: 'press' };
    });
  }

  feeds() {
    const health = ['fine', 'quiet', 'failing', 'learning', 'new', 'fine', 'fine', 'moved', 'gone'];
    return { feeds: Array.from({ length: 400 }, (_, at) => ({ url: at % 7 === 3 && this.hostile ? ATTACKS[at % ATTACKS.length].text : `https://n${at}.example/feed.xml`, title: at < ATTACKS.length && this.hostile ? ATTACKS[at].text : `News ${at}`, source: `n${at}.example`, health: health[at % health.length], wrong: at % 9 === 2 ? this.bad('not XML') : '', stories: 812 + at, usual_gap_s: 610 + at * 13, silent_s: 300 + at * 60, next: new Date(Date.now() + at * 1000).toISOString(), why: 'it has a new story every 10 min', polls: [{ at: '2026-11-18T20:40:00Z', status: 200, found: 'new', entries: 30, new: 2 }] })), cut: false };
  }

  stories() {
    return { rows: Array.from({ length: 60 }, (_, at) => ({ source: 'news.example', found: new Date(this.started + at * 90_000).toISOString(), url: at % 2 && this.hostile ? ATTACKS[at % ATTACKS.length].text : `https://news.example/s/${at}`, title: this.hostile ? ATTACKS[(at * 5) % ATTACKS.length].text : `Story ${at}`, published: new Date(this.started + at * 90_000 - 120_000).toISOString(), feed: 'https://news.example/feed.xml' })) };
  }

  archive() {
    const files = Array.from({ length: 30 }, (_, at) => ({ name: at === 3 && this.hostile ? `press-${ATTACKS[0].text}.warc.gz` : `press-20261118190201000-${String(at).padStart(5, '0')}-n1.warc.gz`, bytes: 999_999_999 - at * 17, records: 40_112 + at, first: '2026-11-18T19:02:01Z', last: '2026-11-18T19:42:01Z', open: false })).reverse();
    files[0] = { name: files[0].name, bytes: 312_000_000, open: true };
    const types = [['text/html', 150_210, 3_100_000_000], ['image/png', 20_110, 800_000_000], ['application/pdf', 311, 220_000_000], ...(this.hostile ? ATTACKS.slice(0, 40).map(({ text }) => [text, 1, 120]) : [])].map(([type, count, bytes]) => ({ type, count, bytes }));
    return { files, bytes: 29_999_999_970, saved_bytes: 920_011_000, captures: 200_570 + this.ticks, unindexed: 1, types, files_total: 30, revisits: 12, statuses: [['200', 190_110], ['301', 6120], ['404', 4300], ['-', 40]].map(([status, count]) => ({ status, count })), complete: true };
  }

  cluster() {
    const nodes = [...this.alive].map((name, at) => ({ name, address: this.addresses[name] ?? `127.0.0.1:${6375 + at}`, draining: this.draining.has(name), partitions: this.owners.filter((owner) => owner.node === name).length, state: 'crawling' }));
    return { partitions: this.partitions, without_owner: this.owners.filter((owner) => !owner.node).length, nodes, alarms: this.hostile ? ['node n2: it holds no lease, so it fetches nothing', ...ATTACKS.map(({ text }) => text)] : [] };
  }

  clusterNodes() {
    return this.cluster().nodes.map((node) => ({ ...node, alarms: node.name === 'n2' ? ['its disk is full: it fetches nothing until there is room'] : [], stats: { offered: 900_112, tickets: 8920, robots: 236, ended: 8890, turned_away: 41, expired: 0, tickets_open: 24, hosts_active: 235, offers_waiting: 210, urls_waiting: 130_000 - this.ticks, urls_later: 1204, urls_parked: 88, tasks: 412, journal_bytes: 81_220_110, commits: 5120, commit_ms_max: 41 } }));
  }

  spiders() {
    return [{ node: 'n1', name: 'gpu-1', connected: true, capacity: 64, open: 12, fetched: 8812 }, { node: '', name: this.hostile ? ATTACKS[2].text : 'x', connected: false, capacity: 8, open: 0, fetched: 0 }];
  }

  settings() {
    const rows = [['identity.agent', 'Nephila', 'Nephila', 'default', 'Product token for robots.txt: letters, `_` and `-` only (RFC 9309, 2.2.1).'], ['frontier.host_delay', '2s', '2s', 'default', 'Pause between two requests of a host.', true], ['crawl.concurrency', 512, 256, '--set', 'Maximum number of concurrent fetches.'], ['spider.total_timeout', '30s', '5m', 'environment NEPHILA_SPIDER__TOTAL_TIMEOUT', '…'], ['api.token', '(set)', '', 'file nephila.toml', 'Token of the API.', false, true], ['robots.obey', true, true, 'default', 'Obey robots.txt.'], ...ATTACKS.map(({ text, name }) => [`custom.${name.replaceAll('-', '_')}`, this.hostile ? text : name, '', 'file /etc/nephila/nephila.toml', 'A value from a file.'])];
    return { settings: rows.map(([key, value, preset, origin, help, live = false, secret = false]) => ({ key, value, default: preset, origin, live, secret, help })) };
  }
}
