// One host: when it was asked, against the gap that we promise; robots.txt as we read it; the last requests; changes.

import { field, stopList } from './actions.js';
import { send } from './api.js';
import { crawled, foreign, h, outside, route, s } from './dom.js';
import { ago, clock, full, lasting, num, span, time } from './format.js';
import { isFailed, picture } from './gaps.js';
import { linkButton } from './links.js';
import { card, facts, heading, loading, partNote, pill } from './parts.js';
import { table } from './table.js';

export const title = (page) => `Host ${page.parameters.url ?? ''}`;

const REQUESTS = 200;

export function open(page) {
  const url = page.parameters.url ?? '';
  if (!url) {
    page.show(heading('Which host?'), h('p', { class: 'w12' }, 'Choose one on the page ', h('a', { href: route('hosts') }, 'Hosts'), '.'));
    return;
  }
  let [host, timeline] = [undefined, null];
  page.wait(heading(foreign(url, 200)), ...loading('').slice(1));
  const draw = () => host !== undefined && page.show(view(page, url, host, timeline, again));
  const again = page.every(2, async () => {
    host = await page.get('host', { url });
    draw();
  });
  page.every(3, async () => {
    timeline = await page.part('host/timeline', { url, limit: REQUESTS });
    draw();
  });
}

function view(page, url, host, timeline, again) {
  const requests = timeline?.value?.requests ?? [];
  const pages = requests.filter((request) => request.gap_ms !== undefined);
  if (!host && !requests.length) return [heading(foreign(url, 200)), h('p', { class: 'empty w12' }, 'No URL of this host is known yet.')];
  const early = pages.filter((request) => request.gap_ms < request.promised_ms).length;
  const delay = timeline?.value?.delay_s;
  return [
    heading(foreign(host?.origin ?? timeline?.value?.origin ?? url, 200), host ? [num(host.waiting, 'host:waiting'), ' queued · ', num(host.ended, 'host:ended'), ' fetches ended · ',
      host.stopped ? 'stopped' : host.held_by?.length ? foreign(host.held_by[0], 200) : 'free to ask', ' · '] : null, outside(`${host?.origin ?? url}/`, 'open the site')),
    card(12, 'Requests against the promised gap', delay === undefined ? null : `${span(delay)} promised`,
      timeline?.problem ? partNote(timeline.problem, 'the timeline') : !timeline ? h('p', { class: 'loading' }, 'Loading …') : picture(requests, pages, early)),
    host ? card(6, 'State', null, state(host), buttons(page, host, again)) : null,
    host ? card(6, 'robots.txt', h('a', { href: route('url', { url: `${host.origin}/robots.txt` }) }, 'explain robots.txt'), robots(host.robots ?? {})) : null,
    requests.length ? card(6, 'Time to answer', `the last ${requests.length} requests`, answers(requests)) : null,
    requests.length ? card(6, 'Outcomes', `the last ${requests.length} requests`, outcomes(requests)) : null,
    requests.length ? card(12, 'Last requests', h('a', { href: route('log', { host: host?.origin ?? url }) }, 'log of this host'), list(requests)) : null,
  ];
}

function state(host) {
  return facts(['queued', num(host.waiting), ' URLs'], ['for later', num(host.later), ' URLs'], ['parked', num(host.parked), ' URLs beyond the budget of the domain'],
    ['failures', num(host.failures), ' in a row'], ['held by', host.held_by?.length ? host.held_by.slice(0, 10).map((hold) => h('div', {}, foreign(hold, 300))) : 'nothing'],
    ['rests until', host.rest_until ? time(host.rest_until) : ''], ['delay', host.delay_ms ? [lasting(host.delay_ms / 1000), ', set by an operator'] : 'by the settings and robots.txt'],
    ['stopped', host.stopped ? foreign(host.stopped, 300) : ''], ['found', ago(host.found)]);
}

function buttons(page, host, again) {
  const name = new URL(host.origin).hostname;
  return h('p', { class: 'buttons' },
    page.actions.button({ label: 'Set the delay', status: page.status, title: `Set the delay of ${host.origin}`, done: again,
      says: 'The host rests at least this long between two requests. A longer Crawl-delay of its robots.txt still counts. 0 takes the delay away.',
      fields: [field('delay', 'Seconds', { type: 'number', min: 0, max: 86_400, step: '0.1', value: host.delay_ms / 1000, required: true })],
      run: ({ delay }) => send('POST', 'host', { parameters: { url: `${host.origin}/`, delay_ms: Math.round(Number(delay) * 1000) } }) }),
    linkButton(page, { kind: 'host', name: host.origin, label: 'Link for its operator', title: `A link for the operator of ${name}`,
      says: `Whoever has the link sees our requests to ${name} and its robots.txt as we read it, without a token and nothing else, until the link is over. A single link cannot be taken back.` }),
    host.stopped
      ? page.actions.button({ label: 'Take it off the stop list', status: page.status, title: `Ask ${name} again`, says: `Takes ${name} off the stop list. Its queued URLs are fetched again, as politely as before.`, run: () => stopList.remove(name), done: again })
      : page.actions.button({ label: 'Never ask it again', kind: 'danger', status: page.status, title: `Stop ${name}`, done: again,
        says: `Puts ${name} on the stop list: no node asks it any more, within seconds. Its URLs stay queued. You can take it off again on the page Politeness.`,
        fields: [field('reason', 'Reason', { required: true, maxlength: 500 }), field('author', 'Your name', { required: true, maxlength: 100 })],
        run: ({ reason, author }) => stopList.add(name, reason, author) }));
}

function robots(said) {
  return facts(['policy', foreign(said.policy ?? '–', 100)], ['rule', said.rule ? [h('code', {}, foreign(said.rule[1], 300)), ` in line ${said.rule[0]}`] : ''],
    ['Crawl-delay', said.crawl_delay_ms ? lasting(said.crawl_delay_ms / 1000) : 'none asked for'], ['fetched', said.fetched ? time(said.fetched) : 'not yet'],
    ['valid until', said.expires ? time(said.expires) : ''], ['unreadable', said.unread ? [pill('warn', 'everything is forbidden'), ' ', foreign(said.unread, 200)] : ''], ['since', said.unread_since ? ago(said.unread_since) : '']);
}

/** Time to answer of each request, in order. */
function answers(requests) {
  const shown = requests.slice(0, REQUESTS).reverse();
  const most = Math.max(1, ...shown.map((request) => request.took_ms ?? 0));
  const [width, height] = [520, 150];
  const sorted = shown.map((request) => request.took_ms ?? 0).sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return [s('svg', { viewBox: `0 0 ${width} ${height}`, class: 'plot', role: 'img', 'aria-label': `Time to answer: half within ${full(at(0.5))} ms, 95 of 100 within ${full(at(0.95))} ms` },
    s('path', { class: 'ax', d: `M50 10H${width - 6}M50 ${height - 12}H${width - 6}` }), s('text', { x: 44, y: 14, 'text-anchor': 'end' }, span(most / 1000)), s('text', { x: 44, y: height - 8, 'text-anchor': 'end' }, '0'),
    shown.map((request, index) => s('circle', { class: `dot ${isFailed(request) ? 'failed' : ''}`, r: 3.5, cx: 56 + (index / Math.max(1, shown.length - 1)) * (width - 70), cy: height - 12 - ((request.took_ms ?? 0) / most) * (height - 24) }))),
  h('p', { class: 'words' }, `Half of the requests took at most ${span(at(0.5) / 1000)}, 95 of 100 at most ${span(at(0.95) / 1000)}. Oldest at the left; rings are requests that failed.`)];
}

function outcomes(requests) {
  const counts = new Map();
  for (const { outcome, status } of requests) {
    const name = `${outcome}${status ? ` ${status}` : ''}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return table({ caption: 'Outcomes', wide: true, rows: [...counts].sort((a, b) => b[1] - a[1]).slice(0, 12), columns: [
    { key: 'outcome', label: 'outcome and status', cell: ([name]) => h('code', {}, foreign(name, 80)) }, { key: 'count', label: 'requests', number: true, cell: ([, count]) => num(count) }] });
}

function list(requests) {
  return table({ caption: 'Last requests', rows: requests.slice(0, 50), key: (request) => `${request.at_ms} ${request.url}`, columns: [
    { key: 'at', label: 'at', cell: (request) => h('time', { datetime: new Date(request.at_ms).toISOString(), title: new Date(request.at_ms).toISOString() }, clock(request.at_ms)) },
    { key: 'url', label: 'URL', cell: (request) => crawled(request.url, 160) },
    { key: 'outcome', label: 'outcome', cell: (request) => [h('code', {}, foreign(request.outcome, 60)), request.status ? ` ${request.status}` : '', request.purpose && request.purpose !== 'page' ? [' ', pill('none', request.purpose)] : null] },
    { key: 'took', label: 'took', number: true, cell: (request) => lasting((request.took_ms ?? 0) / 1000) },
    { key: 'gap', label: 'gap', number: true, cell: (request) => (request.gap_ms === undefined ? '–' : lasting(request.gap_ms / 1000)) },
    { key: 'promised', label: 'promised', number: true, cell: (request) => [lasting(request.promised_ms / 1000), request.gap_ms < request.promised_ms ? [' ', pill('bad', 'too soon')] : null] }] });
}
