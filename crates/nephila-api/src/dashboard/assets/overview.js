// Overview: one sentence of state, what holds the crawl back, and the last hour.

import { History, TimeChart } from './charts.js';
import { foreign, h, hostLink, route } from './dom.js';
import { ago, bytes, count, full, lasting, num, short } from './format.js';
import { bar, card, empty, facts, heading, partNote, pill } from './parts.js';
import { flow } from './stages.js';
import { table } from './table.js';
import { hostState, nextRequest } from './hosts.js';

export const title = () => 'Overview';

/** Rows of the table of hosts here; the page Hosts has all. */
const HOSTS = 8;
const JOBS = 10;

export function open(page) {
  const history = new History();
  const charts = makeCharts(page);
  let [hosts, shown, kept] = [null, null, null];
  const draw = () => shown && page.show(shown.mode === 'archive' ? archive(shown, kept) : view(page, shown, charts, hosts));
  page.on('status', (status) => {
    shown = status;
    draw();
  });
  page.every(5, async () => {
    if (page.status?.mode === 'archive') {
      kept = await page.part('archive');
      return draw();
    }
    await history.refresh(page);
    draw();
    charts.fill(history);
  });
  page.every(5, async () => {
    if (page.status?.mode === 'archive') return;
    hosts = await page.part('hosts', { sort: 'queued', limit: HOSTS });
    draw();
  });
}

function makeCharts(page) {
  const pages = new TimeChart({ label: 'Pages a second by outcome, last hour', stacked: true, per: '/s', series: [
    { label: 'ok', colour: '--b1' }, { label: 'redirect', colour: '--b2' }, { label: 'answered 4xx', colour: '--b3' },
    { label: 'answered 5xx', colour: '--b4' }, { label: 'no answer', colour: '--b5' }] }, page);
  const traffic = new TimeChart({ label: 'Bytes a second, last hour', unit: 'size', per: '/s', series: [{ label: 'received', colour: '--b1' }, { label: 'written to the archive', colour: '--b4' }] }, page);
  const frontier = new TimeChart({ label: 'URLs and hosts in the frontier, last hour', log: true, series: [
    { label: 'URLs queued', colour: '--b1' }, { label: 'URLs for later', colour: '--b2' }, { label: 'URLs parked', colour: '--b3' }, { label: 'hosts free to ask', colour: '--b4' }] }, page);
  const fill = (history) => {
    const rate = (value) => history.of((point) => (value(point) ?? 0) / history.step);
    const times = history.times;
    pages.set([times, ...['ok', 'redirect', 'client_error', 'server_error', 'failed'].map((name) => rate((point) => point.pages?.[name]))]);
    traffic.set([times, rate((point) => point.bytes), rate((point) => point.written_bytes)]);
    frontier.set([times, ...['queued', 'later', 'parked', 'hosts_ready'].map((name) => history.of((point) => point[name]))]);
  };
  return { pages, traffic, frontier, fill };
}

function view(page, status, charts, hosts) {
  return [
    heading(foreign(status.sentence ?? 'The node says nothing about its state.'), summary(status)),
    alarms(status),
    card(12, 'What limits us', h('a', { href: route('limits') }, 'all stages and waits'), flow(status), note(status)),
    card(8, 'Pages a second by outcome', 'last 60 minutes', charts.pages.slot()),
    card(4, 'Jobs', h('a', { href: route('jobs') }, 'all jobs'), jobs(status)),
    card(6, 'Bytes a second', 'last 60 minutes', charts.traffic.slot()),
    card(6, 'Frontier', 'last 60 minutes, logarithmic', charts.frontier.slot()),
    card(4, 'So far', null, done(status)),
    card(8, 'Hosts with most URLs', h('a', { href: route('hosts', { sort: 'queued' }) }, 'all hosts'), backlog(hosts)),
    status.webhooks?.length ? card(12, 'Webhooks', null, webhooks(status)) : null,
    status.nodes ? card(12, 'Nodes', h('a', { href: route('cluster') }, 'the cluster'), nodes(status)) : null,
  ];
}

function summary(status) {
  const running = (status.jobs ?? []).filter((job) => job.state === 'running').length;
  const { disk = {}, frontier = {} } = status;
  return [
    `${count(running, 'job')} running · `, num(frontier.queued, 'status:frontier.queued'), ' URLs queued · ',
    status.drain_in_s ? ['empty in about ', lasting(status.drain_in_s, 'status:drain_in_s'), ' · '] : null,
    bytes(disk.free_bytes, 'status:disk.free_bytes'), ' free on the disk',
    disk.full_in_s ? [', full in ', lasting(disk.full_in_s, 'status:disk.full_in_s'), ' at this rate'] : null,
    ' · running since ', ago(status.started_at)];
}

function alarms(status) {
  const list = status.alarms ?? [];
  if (!list.length) return null;
  return card(12, count(list.length, 'alarm'), null, h('ul', { class: 'plain' }, list.map((alarm) =>
    h('li', { 'data-key': alarm.name }, pill('warn', 'Alarm: '), ' ', foreign(alarm.text), alarm.since ? h('span', { class: 'dim' }, ' · since ', ago(alarm.since)) : null))));
}

function note(status) {
  const detail = status.limited_by?.detail;
  return detail ? h('p', { class: 'dim' }, foreign(detail)) : null;
}

/** The overview of a folder whose crawl has ended. */
function archive(status, kept) {
  const said = kept?.value;
  return [
    heading(foreign(status.sentence ?? ''), bytes(status.disk?.free_bytes, 'status:disk.free_bytes'), ' free on the disk'),
    alarms(status),
    card(12, 'What is in it', h('a', { href: route('archive') }, 'open the archive'), !kept ? h('p', { class: 'loading' }, 'Loading …') : kept.problem ? partNote(kept.problem, 'the archive') : facts(
      ['captures', num(said.captures, 'archive:captures')], ['stored', bytes(said.bytes, 'archive:bytes')], ['saved', said.saved_bytes ? bytes(said.saved_bytes, 'archive:saved_bytes') : ''], ['files', num(said.files_total ?? said.files?.length)]),
    h('p', { class: 'dim' }, 'The pages can be found and replayed; nothing is fetched.')),
  ];
}

export function jobProgress(job) {
  const { left = 0, pages = 0 } = job.progress ?? {};
  return bar(pages, pages + left, 'Share of the known URLs that is fetched');
}

export function jobState(job) {
  if (job.progress?.complete) return pill('good', 'complete');
  return pill({ running: 'busy', paused: 'wait', stopped: 'off' }[job.state] ?? 'none', job.state);
}

function jobs(status) {
  const list = status.jobs ?? [];
  if (!list.length) return empty('There is no job.');
  const shown = list.slice(0, JOBS);
  return [h('ul', { class: 'plain' }, shown.map((job) => h('li', { 'data-key': job.name },
    h('a', { href: route(`job/${encodeURIComponent(job.name)}`) }, h('b', {}, foreign(job.name, 80))), ' ', jobState(job), jobProgress(job),
    h('span', { class: 'dim', title: `${full(job.progress?.pages)} pages, ${full(job.progress?.left)} left` }, `${short(job.progress?.pages)} pages, ${short(job.progress?.left)} left`,
      job.progress?.complete ? [' · complete ', ago(job.progress.complete)] : null)))),
  list.length > JOBS ? h('p', { class: 'dim' }, `and ${list.length - JOBS} more`) : null];
}

function done(status) {
  const { done: all = {}, rates = {} } = status;
  const of = (name) => `status:done.${name}`;
  return facts(
    ['pages', num(all.pages, of('pages')), ' · now ', num(rates.pages_per_s, 'status:rates.pages_per_s'), ' a second'],
    ['received', bytes(all.bytes, of('bytes')), ' · now ', bytes(Math.round(rates.bytes_per_s ?? 0)), ' a second'],
    ['ok', num(all.ok, of('ok'))], ['redirects', num(all.redirect, of('redirect'))], ['not there', num(all.missing, of('missing'))],
    ['refused', all.refused === undefined ? '' : num(all.refused, of('refused'))],
    ['failed', num(all.failed, of('failed')), ' · now ', num(rates.errors_per_s, 'status:rates.errors_per_s'), ' a second'],
    ['robots.txt', num(all.robots, of('robots')), ' read'],
    ['saved', all.saved_bytes === undefined ? '' : bytes(all.saved_bytes, of('saved_bytes')), ` not written again, ${full(all.revisits ?? 0)} unchanged pages`]);
}

function backlog(hosts) {
  if (!hosts) return h('p', { class: 'loading' }, 'Loading …');
  if (hosts.problem) return partNote(hosts.problem, 'the list of hosts');
  return table({ caption: 'Hosts with most URLs', rows: hosts.value.hosts.slice(0, HOSTS), key: (row) => row.origin, none: 'No host is known yet.', columns: [
    { key: 'origin', label: 'host', cell: (row) => hostLink(row.origin) },
    { key: 'queued', label: 'queued', number: true, cell: (row) => num(row.queued) },
    { key: 'done', label: 'done', number: true, cell: (row) => num(row.done) },
    { key: 'next', label: 'next request', cell: (row) => nextRequest(row) },
    { key: 'state', label: 'state', cell: (row) => hostState(row) }] });
}

function webhooks(status) {
  const look = { delivering: 'good', failing: 'warn', gone: 'bad' };
  return table({ caption: 'Webhooks', rows: status.webhooks, key: (row) => row.name, columns: [
    { key: 'name', label: 'webhook', cell: (row) => foreign(row.name, 40) },
    { key: 'state', label: 'state', cell: (row) => [pill(look[row.state] ?? 'none', row.state), row.failing_since ? [' since ', ago(row.failing_since)] : null, row.error ? [' ', foreign(row.error, 200)] : null] },
    { key: 'events', label: 'events accepted', number: true, cell: (row) => num(row.events) },
    { key: 'failures', label: 'failures', number: true, cell: (row) => num(row.failures) },
    { key: 'lag', label: 'seconds behind', number: true, cell: (row) => num(row.lag_s) }] });
}

function nodes(status) {
  return table({ caption: 'Nodes of the cluster', rows: status.nodes, key: (node) => node.name, columns: [
    { key: 'name', label: 'node', cell: (node) => foreign(node.name, 60) },
    { key: 'state', label: 'state', cell: (node) => (node.error ? [pill('bad', 'no answer'), ' ', foreign(node.error, 200)] : pill(node.state === 'crawling' ? 'busy' : 'good', node.state)) },
    { key: 'rate', label: 'pages a second', number: true, cell: (node) => num(node.pages_per_s) },
    { key: 'queued', label: 'URLs queued', number: true, cell: (node) => num(node.queued) },
    { key: 'alarms', label: 'alarms', number: true, cell: (node) => num(node.alarms ?? 0) }] });
}

