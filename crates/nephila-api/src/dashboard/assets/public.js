// The pages for people without a token: one host for its operator, one job for those who wait for it. The link in the
// address of the page opens its data, and nothing else.

import { foreign, h, morph, outside, scroller, visible } from './dom.js';
import { ago, bytes, clock, count, full, lasting, num, span, time } from './format.js';
import { picture } from './gaps.js';
import { bar, card, empty, facts, heading, pill } from './parts.js';
import { table } from './table.js';

/** Time between two questions, and the longest pause after one without an answer. */
const ASK_MS = 5000;
const PAUSE_MAX_MS = 60_000;
/** A question that takes longer is given up. */
const WAIT_MS = 15_000;
const REQUESTS = 50;

const at = (id) => document.getElementById(id);
const main = at('main');
const [, kind, name] = /\/(host|job)\/([^/]+)$/.exec(location.pathname) ?? [];
const views = { host: viewHost, job: viewJob };
const page = { lastAt: 0, failures: 0, timer: 0, sentence: '' };

/** Words and marks of states. */
const JOB_STATES = { running: ['busy', 'running'], paused: ['wait', 'paused'], stopped: ['off', 'stopped'], done: ['good', 'done'] };
const SITE_STATES = { open: ['busy', 'being crawled'], resting: ['wait', 'resting'], stopped: ['off', 'stopped'], robots: ['warn', 'held by robots.txt'], done: ['good', 'nothing waits'], later: ['wait', 'later'], unknown: ['none', 'not known right now'] };

/** `{said}`, `{closed: true}`, or `{wait, why}`. */
async function ask() {
  let answer;
  try {
    answer = await fetch(`../v1/${kind}/${name}${location.search}`, { credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(WAIT_MS) });
    if (answer.ok) return { said: await answer.json() };
  } catch {
    return { why: 'The crawler does not answer.' };
  }
  if (answer.status === 404) return { closed: true };
  return { wait: Number(answer.headers.get('retry-after')) || undefined, why: answer.status === 429 ? 'Many people look at this page right now.' : 'The crawler has no numbers right now.' };
}

async function look() {
  clearTimeout(page.timer);
  if (document.hidden) return;
  const { said, closed, wait, why } = await ask();
  if (closed) return end();
  if (said) {
    Object.assign(page, { lastAt: Date.now(), failures: 0 });
    show(views[kind](said));
    connection('good', `● as of ${clock(said.now)} UTC`);
    lost();
  } else {
    page.failures += 1;
    connection(page.lastAt ? 'warn' : 'dim', page.lastAt ? '◔ no new numbers' : '○ waiting');
    if (page.failures > 2 || !page.lastAt) lost(why);
  }
  const pause = Math.min(PAUSE_MAX_MS, ASK_MS * 2 ** Math.min(page.failures, 4));
  // Readers who began together do not stay together.
  page.timer = setTimeout(look, Math.max((wait ?? 0) * 1000, said ? ASK_MS : pause) * (1 + Math.random() / 10));
}

function show(children) {
  const wanted = h('main', {}, children);
  for (const { name: attribute, value } of main.attributes) if (attribute !== 'aria-busy') wanted.setAttribute(attribute, value);
  morph(main, wanted);
}

function connection(state, text) {
  const shown = h('p', { id: 'connection' }, h('span', { class: `state ${state}` }, text));
  morph(at('connection'), shown);
}

/** Says that no numbers come, or that they come again. */
function lost(why) {
  const text = why ? `▲ ${why} ${page.lastAt ? `The numbers are ${span(Math.round((Date.now() - page.lastAt) / 1000))} old.` : ''} The page tries again by itself.` : '';
  at('lost').hidden = !why;
  if (at('lost').textContent !== text) at('lost').textContent = text;
  document.body.classList.toggle('stale', Boolean(why && page.lastAt));
}

/** The link is over while the page is open, or the address has none. */
function end() {
  lost();
  document.title = 'No such page · Nephila';
  connection('dim', '○ closed');
  at('said').textContent = 'This link opens nothing any more.';
  show([heading('This link opens nothing, or nothing any more.'), h('p', { class: 'w12' }, 'It may be over, or a part of it may be missing. Ask the person who gave it to you for a new one.')]);
}

/** A screen reader hears a sentence when it changes. */
function say(sentence) {
  if (sentence === page.sentence) return;
  page.sentence = sentence;
  at('said').textContent = visible(sentence, 300);
}

function contact(text) {
  if (!text) return h('span', { class: 'dim' }, 'The operator names none.');
  return /^https?:/i.test(text) ? [foreign(text, 200), ' ', outside(text, 'open')] : foreign(text, 200);
}

function crawler(said) {
  return facts(['contact', contact(said.contact)], ['User-Agent', h('code', {}, foreign(said.user_agent, 300))], ['in robots.txt', h('code', {}, foreign(said.agent, 100))]);
}

/* The page of a host. */

function viewHost(said) {
  const title = `Requests to ${visible(said.host, 100)}`;
  document.title = `${title} · Nephila`;
  const kept = said.violations ? `${count(said.violations, 'request')} came sooner than promised.` : said.requests_total ? 'None came sooner than promised.' : '';
  say(`${title}. ${kept}`);
  const [first] = said.requests;
  return [
    heading(['Our requests to ', foreign(said.host, 200)], said.requests_total ? [num(said.requests_total), ' requests since ', time(said.from), said.complete ? '' : ' (older ones are not counted)', ', ', num(said.robots_requests), ' of them for robots.txt. '] : 'The log has no request to this host. ',
      said.requests_total ? pill(said.violations ? 'bad' : 'good', said.violations ? `${full(said.violations)} sooner than promised` : 'none sooner than promised') : null),
    card(6, 'Who crawls', null, crawler(said.crawler)),
    card(6, 'How to slow down or stop this crawler', null, howTo(said)),
    first ? card(12, 'Requests against the promised pause', [lasting(first.promised_ms / 1000), ' promised'], said.sites.map((site) => siteGaps(site, said))) : null,
    said.sites.map((site) => siteCards(site)),
    said.sites.length ? null : card(12, 'State', null, empty('No URL of this host is known to the crawl.')),
    said.requests.length ? card(12, 'Last requests', `the last ${Math.min(REQUESTS, said.requests.length)}`, requests(said.requests)) : null,
  ];
}

/** The requests over one scheme: a host over https and over http are two that rest by themselves. */
function siteGaps({ origin }, said) {
  const own = said.requests.filter((request) => origin.startsWith(`${request.scheme}:`));
  const gaps = own.filter((request) => request.gap_ms !== undefined);
  const early = gaps.filter((request) => request.gap_ms < request.promised_ms).length;
  return [said.sites.length > 1 ? h('h3', {}, foreign(origin, 100)) : null, picture(own, gaps, early, `Requests to ${visible(origin, 100)} against the promised pause`)];
}

function siteCards(site) {
  const waits = site.queued ? [num(site.queued), ' URLs'] : 'nothing';
  return [
    card(6, ['State of ', foreign(site.origin, 100)], null, h('p', {}, pill(...(SITE_STATES[site.state] ?? SITE_STATES.unknown)), ' ', foreign(site.sentence, 300)),
      facts(['next request', site.next ? (Date.parse(site.next) <= Date.now() ? 'any moment' : time(site.next)) : 'none is planned'], ['pause', [lasting(site.delay_ms / 1000), site.delay_why ? [': ', foreign(site.delay_why, 200)] : '']], ['waiting', waits])),
    card(6, ['robots.txt of ', foreign(site.origin, 100)], null, robots(site.robots, site.origin)),
  ];
}

function robots(said, origin) {
  const groups = { named: 'the group that names this crawler', everybody: 'the group for all crawlers (*)', none: 'no group applies' };
  return [
    facts(['read as', foreign(said.policy || 'not known right now', 100)], ['group', groups[said.group] ?? ''], ['Crawl-delay', said.crawl_delay_ms ? lasting(said.crawl_delay_ms / 1000) : said.policy ? 'none asked for' : ''],
      ['fetched', said.fetched ? time(said.fetched) : ''], ['read again', said.expires ? [time(said.expires), ' at the latest'] : ''],
      ['unreadable', said.unread ? [foreign(said.unread, 200), said.unread_since ? [', since ', time(said.unread_since)] : ''] : '']),
    said.lines?.length ? scroller(`Rules of robots.txt of ${visible(origin, 100)}`, h('table', {}, h('caption', { class: 'hidden' }, `Rules of robots.txt of ${visible(origin, 100)} that apply`),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col', class: 'n' }, 'line'), h('th', { scope: 'col' }, 'rule'))),
      h('tbody', {}, said.lines.map(([line, text]) => h('tr', {}, h('td', { class: 'n' }, full(line)), h('td', {}, h('code', {}, foreign(text, 300)))))))) : null,
    said.rules > (said.lines?.length ?? 0) ? h('p', { class: 'dim' }, `${full(said.rules)} rules apply; the first ${full(said.lines?.length ?? 0)} are shown.`) : null,
  ];
}

/** Lines of robots.txt, to be copied. */
function block(label, lines) {
  return h('pre', { tabindex: '0', role: 'region', 'aria-label': label }, lines.map((line) => [foreign(line, 2000), '\n']));
}

/** What makes the crawler slower, at each site. A group that names a crawler replaces the one for all, so its rules are repeated. */
function slower(said) {
  if (!said.sites.length) return slowerAt({}, said.slow_lines, '');
  return said.sites.map((site) => slowerAt(site.robots ?? {}, site.slow_lines ?? said.slow_lines, said.sites.length > 1 ? ` of ${visible(site.origin, 100)}` : ''));
}

function slowerAt({ group, rules = 0, lines = [] }, wanted, of) {
  const first = group === 'named' ? `Slower: add this line to the group of robots.txt${of} that names this crawler.` : `Slower: add these lines to robots.txt${of}.`;
  let more = '';
  if (!group) more = ' If it has rules for all crawlers (*), repeat them below these lines, which replace them for this crawler.';
  else if (group === 'everybody' && rules) {
    more = ' They repeat your rules for all crawlers (*), which they replace for this one.';
    if (rules > lines.length) more += ` Of ${full(rules)} rules only the first ${full(lines.length)} are here: add the others.`;
  }
  return [h('p', {}, first, more), block(`Lines of robots.txt${of} for slower`, wanted)];
}

function howTo(said) {
  const allows = said.sites.some(({ robots }) => robots?.group === 'named' && robots.lines?.some(([, text]) => /^allow/i.test(text)));
  return [slower(said), h('p', {}, 'The pause becomes as long as the line Crawl-delay says, in seconds, unless it is longer already.'),
    h('p', {}, 'Not at all: ', allows ? 'remove the lines Allow of the group that names this crawler, and add:' : 'add these lines:'), block('Lines of robots.txt for not at all', said.stop_lines),
    h('p', {}, 'robots.txt is read again within a day. Answers with 429 or 503 and ', h('code', {}, 'Retry-After'), ' stop requests at once for that time. For anything sooner, write to the contact.')];
}

function requests(list) {
  const failed = (request) => request.outcome !== 'ok' && !['redirect', 'not-modified'].includes(request.outcome);
  const schemes = new Set(list.map((request) => request.scheme)).size > 1;
  return table({ caption: 'Last requests', rows: list.slice(0, REQUESTS), key: (request) => `${request.at_ms} ${request.scheme} ${request.path}`, columns: [
    { key: 'at', label: 'at', cell: (request) => h('time', { datetime: new Date(request.at_ms).toISOString(), title: new Date(request.at_ms).toISOString() }, clock(request.at_ms)) },
    { key: 'path', label: 'path', cell: (request) => [foreign(request.path, 160), schemes ? [' ', h('span', { class: 'dim' }, foreign(request.scheme, 10))] : null] },
    { key: 'status', label: 'answer', cell: (request) => [request.status ? String(request.status) : '', ' ', failed(request) || !request.status ? h('code', {}, foreign(request.outcome, 60)) : null] },
    { key: 'took', label: 'took', number: true, cell: (request) => lasting(request.took_ms / 1000) },
    { key: 'gap', label: 'pause before', number: true, cell: (request) => (request.gap_ms === undefined ? '–' : lasting(request.gap_ms / 1000)) },
    { key: 'promised', label: 'promised', number: true, cell: (request) => [lasting(request.promised_ms / 1000), request.gap_ms < request.promised_ms ? [' ', pill('bad', 'too soon')] : null] }] });
}

/* The page of a job. */

const CLASSES = [['ok', 'fetched'], ['redirect', 'redirects'], ['missing', 'not there (404 and the like)'], ['refused', 'forbidden by robots.txt, site or rules'], ['failed', 'failed']];

function viewJob(said) {
  const title = `Job ${visible(said.job, 100)}`;
  document.title = `${title} · Nephila`;
  const [mark, word] = JOB_STATES[said.state] ?? ['none', said.state];
  const whole = said.pages + said.queued;
  const share = whole ? said.pages / whole : 0;
  say(`${title}: ${word}.`);
  return [
    heading(['Job ', foreign(said.job, 100), ' ', pill(mark, visible(word, 40))], num(said.pages), ' pages fetched, ', num(said.queued), ' URLs wait'),
    card(12, 'Progress', said.state === 'running' && said.left_s !== undefined ? ['about ', lasting(said.left_s), ' left'] : null,
      bar(share, 1, 'Progress'), h('p', {}, whole ? `${full(share * 100, share < 0.1 ? 1 : 0)} % of the URLs that are known by now. ` : 'No URL is known yet. ', said.state === 'running' ? 'Pages lead to more URLs, so the share may fall.' : '')),
    card(6, 'In numbers', null, facts(['begun', said.begun ? [time(said.begun), ' (', ago(said.begun), ')'] : 'not known'], ['done', said.complete ? time(said.complete) : ''],
      ['rate', said.state !== 'running' ? '' : said.pages_per_s === undefined ? 'known in some seconds' : [num(said.pages_per_s), ' pages per second']],
      ['left', said.state !== 'running' || said.left_s === undefined ? '' : ['about ', lasting(said.left_s), ', at this rate: until ', time(Date.parse(said.now) + said.left_s * 1000)]], ['received', bytes(said.bytes)])),
    card(6, 'How URLs ended', said.partial ? 'not counted by all nodes' : null, table({ caption: 'How URLs ended', wide: true, rows: CLASSES, key: ([field]) => field, columns: [
      { key: 'class', label: 'how', cell: ([, words]) => words }, { key: 'count', label: 'URLs', number: true, cell: ([field]) => num(said.ended_as[field]) }] })),
    card(12, 'Who crawls', null, crawler(said.crawler)),
  ];
}

function start() {
  const until = new URLSearchParams(location.search).get('until') ?? '';
  if (/^\d{1,12}$/.test(until)) at('until').replaceChildren('This link is valid until ', time(Number(until) * 1000), '. Whoever has it sees this page.');
  document.addEventListener('visibilitychange', () => !document.hidden && look());
  show([heading(kind === 'job' ? 'Progress of a job' : 'Requests to a host'), h('p', { class: 'loading w12', role: 'status' }, 'Loading …')]);
  if (!kind) end();
  else look();
}

start();
