// One URL: what is known about it and why, as `nephila explain` says it; and its captures in the archive.

import { capture, crawled, foreign, h, hostLink, outside, route } from './dom.js';
import { ago, bytes, clock, digitsTime, lasting, num, time } from './format.js';
import { addButton } from './jobs.js';
import { card, empty, facts, heading, loading, partNote, pill, verdict } from './parts.js';
import { local } from './table.js';

export const title = (page) => `Explain ${page.parameters.url ?? ''}`;

const CAPTURES = 500;
/** The states of a URL: shape and words. */
const SUMMARIES = {
  fetched: ['good', 'fetched'], redirected: ['good', 'redirected'], fetching: ['busy', 'being fetched now'], queued: ['wait', 'queued'], parked: ['wait', 'parked'],
  failed: ['bad', 'failed'], robots: ['warn', 'not fetched: robots.txt forbids it'], 'out-of-scope': ['off', 'not fetched: out of scope'], trap: ['warn', 'not fetched: a trap'],
  unknown: ['none', 'unknown'], 'bad-url': ['bad', 'not a URL that can be fetched'], 'no-crawl': ['none', 'a finished archive'],
};
const HOPS = { L: 'link', E: 'part of the page', R: 'redirect', M: 'sitemap', S: 'script', I: 'inferred' };

export function open(page) {
  const { url = '' } = page.parameters;
  if (!url) {
    page.show(heading('Which URL?'), h('p', { class: 'w12' }, 'Type a URL into the field at the top of the page.'));
    return;
  }
  const field = document.getElementById('find-url');
  field.value = url;
  let [said, captures] = [null, null];
  const state = { key: 'timestamp', desc: true };
  page.wait(heading(foreign(url)), ...loading('').slice(1));
  const draw = () => said && page.show(view(page, url, said, captures, state, draw, again));
  const again = page.every(3, async () => {
    const part = (await page.mode()) === 'archive' ? { problem: { status: 404 } } : await page.part('explain', { url });
    if (part.problem && part.problem.status !== 404) throw part.problem;
    said = part.value ?? { url, summary: 'no-crawl', because: 'There is no crawl here that could say more; these are the captures in the archive.' };
    draw();
  });
  page.once(async () => {
    captures = await read(page, url);
    draw();
  });
}

async function read(page, url) {
  try {
    const rows = await page.lines('web/cdx', { url, output: 'json', limit: CAPTURES });
    return { value: rows.filter((row) => row.timestamp) };
  } catch (problem) {
    if (problem.status === 404 || problem.status === 400) return { value: [] };
    return { problem };
  }
}

function view(page, url, said, captures, state, redraw, again) {
  const summary = SUMMARIES[said.summary] ?? ['none', said.summary];
  const isKnown = said.summary !== 'unknown';
  const isExplained = said.summary !== 'no-crawl';
  return [
    heading(verdict(...summary), foreign(said.because ?? '')),
    h('p', { class: 'w12 mono' }, foreign(url, 2000), ' ', outside(url)),
    isExplained ? card(7, 'Why', null, why(said), isKnown ? null : h('p', { class: 'buttons' }, add(page, said, again))) : null,
    !isExplained ? null : card(5, 'Host', said.host ? h('a', { href: route('host', { url: said.host.origin }) }, 'host page') : null, host(said)),
    card(12, 'Captures', captures?.value?.length ? `${captures.value.length}${captures.value.length >= CAPTURES ? ' or more' : ''}` : null, list(captures, state, redraw)),
    said.stream ? card(6, 'From a stream of visited URLs', null, facts(['page id', foreign(said.stream.page_id ?? '', 200)], ['tag', foreign(said.stream.tag ?? '', 200)], ['last line', time(said.stream.last)], ['hits waiting', num(said.stream.hits_waiting)])) : null,
  ];
}

function add(page, said, again) {
  return addButton(page, said.scope?.job ?? page.status?.jobs?.[0]?.name, again);
}

function why(said) {
  return facts(
    ['canonical', said.canonical && said.canonical !== said.url ? foreign(said.canonical, 1000) : said.canonical ? 'the URL itself' : ''],
    ['scope', said.scope ? [pill(said.scope.wanted ? 'good' : 'off', said.scope.wanted ? 'in' : 'out'), ' ', h('code', {}, foreign(said.scope.rule, 300)), ' from ', foreign(said.scope.origin, 100), said.scope.job ? [', job ', h('a', { href: route(`job/${encodeURIComponent(said.scope.job)}`) }, foreign(said.scope.job, 80))] : null] : ''],
    ['trap', said.trap ? foreign(said.trap, 300) : said.canonical ? 'none' : ''],
    ['robots.txt', said.robots ? robots(said.robots) : ''],
    ['in the frontier', said.standing ? foreign(said.standing, 300) : ''],
    ['held by', said.held_by?.length ? said.held_by.slice(0, 10).map((hold) => h('div', {}, foreign(hold, 300))) : ''],
    ['expected', said.expected_s === undefined ? '' : ['in about ', lasting(said.expected_s)]],
    ['next', said.next ? time(said.next) : ''],
    ['last fetch', said.last ? [h('code', {}, foreign(said.last.outcome, 60)), said.last.status ? ` ${said.last.status}` : '', ' ', ago(said.last.at), ': ', foreign(said.last.meaning ?? '', 300)] : said.canonical ? 'never' : ''],
    ['found', said.found ? [ago(said.found), said.via ? [' on ', crawled(said.via, 300)] : ''] : ''],
    ['depth', said.depth === undefined ? '' : [num(said.depth), ' from a seed', said.hops ? `: ${[...said.hops.slice(0, 30)].map((hop) => HOPS[hop] ?? hop).join(', ')}` : '']],
    ['retries', said.retries ? num(said.retries) : '']);
}

function robots(said) {
  return [foreign(said.policy ?? '', 100), said.rule ? [': ', h('code', {}, foreign(said.rule[1], 300)), ` in line ${said.rule[0]}`] : '', said.fetched ? [', read ', time(said.fetched)] : '', said.expires ? [', valid until ', time(said.expires)] : '', said.unread ? [', unreadable: ', foreign(said.unread, 200)] : ''];
}

function host({ host: said }) {
  if (!said) return empty('The host is not known yet.');
  return facts(['host', hostLink(said.origin)], ['queued', num(said.waiting), ' URLs'], ['fetches', num(said.ended), ' ended'], ['failures', num(said.failures), ' in a row'],
    ['held by', said.held_by?.length ? foreign(said.held_by[0], 300) : 'nothing'], ['stopped', said.stopped ? foreign(said.stopped, 300) : '']);
}

function list(captures, state, redraw) {
  if (!captures) return h('p', { class: 'loading' }, 'Loading …');
  if (captures.problem) return partNote(captures.problem, 'the captures');
  return [calendar(captures.value), captureTable('Captures', captures.value, state, redraw)];
}

/** A table of captures, each with its replay. Used by Archive too. */
export function captureTable(caption, rows, state, redraw) {
  return local({ caption, rows, state, redraw, size: 25, key: (row) => `${row.timestamp} ${row.url}`, none: 'The archive has no capture.', columns: [
    { key: 'timestamp', label: 'captured', sort: true, value: (row) => row.timestamp, cell: (row) => replay(row) },
    { key: 'url', label: 'URL', sort: true, value: (row) => row.url, cell: (row) => crawled(row.url, 160) },
    { key: 'status', label: 'status', sort: true, value: (row) => row.status, cell: (row) => foreign(row.status ?? '–', 20) },
    { key: 'mime', label: 'type', class: 'code', sort: true, value: (row) => row.mime, cell: (row) => h('code', {}, foreign(row.mime ?? '–', 80)) },
    { key: 'length', label: 'stored', number: true, sort: true, value: (row) => Number(row.length), cell: (row) => bytes(Number(row.length)) },
    { key: 'filename', label: 'file', class: 'name', cell: (row) => h('code', {}, foreign(row.filename ?? '–', 120)) }] });
}

function replay(row) {
  const words = clock(digitsTime(row.timestamp));
  return capture(row.url, row.timestamp, [words, h('span', { class: 'hidden' }, ' open the capture in a new tab')]) ?? words;
}

/** Captures per month, as text with marks: readable without colour. */
function calendar(rows) {
  const months = new Map();
  for (const { timestamp } of rows) months.set(timestamp.slice(0, 6), (months.get(timestamp.slice(0, 6)) ?? 0) + 1);
  if (months.size < 2) return null;
  const all = [...months].sort().slice(-24);
  const most = Math.max(...all.map(([, count]) => count));
  return h('ul', { class: 'legend', 'aria-label': 'Captures by month' }, all.map(([month, count]) => h('li', {}, `${month.slice(0, 4)}-${month.slice(4)} `, '▮'.repeat(Math.max(1, Math.round((count / most) * 6))), ` ${count}`)));
}
