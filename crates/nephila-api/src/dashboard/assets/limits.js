// What limits us: the stages with their queues, where work waits, the hosts and addresses by state, and what to do.

import { bars, shares, History, TimeChart } from './charts.js';
import { foreign, h } from './dom.js';
import { bytes, count, lasting, num, percent } from './format.js';
import { card, empty, facts, heading } from './parts.js';
import { REASONS, flow, reasonName } from './stages.js';
import { table } from './table.js';

export const title = () => 'What limits us';

/** What waits at each place, in words. */
const WAITS = {
  politeness: ['hosts rest between two requests', 'host'], backoff: ['hosts are left alone after failures', 'host'], robots: ['hosts wait for robots.txt', 'host'],
  dns: ['hosts wait for an address', 'host'], connections: ['hosts wait for a connection', 'host'], answers: ['requests wait for the answer of a server', 'host'],
  store: ['pages wait for the archive', 'page'], log: ['groups of entries wait for the log', 'group'], memory: ['pages wait for memory', 'page'],
};

export function open(page) {
  const history = new History();
  const chart = new TimeChart({ label: 'Hosts free to ask, last hour', series: [{ label: 'hosts free to ask', colour: '--b1' }] }, page);
  let shown = null;
  const draw = () => shown && page.show(view(shown, chart));
  page.on('status', (status) => {
    shown = status;
    draw();
  });
  page.every(5, async () => {
    await history.refresh(page);
    draw();
    chart.set([history.times, history.of((point) => point.hosts_ready)]);
  });
}

function view(status, chart) {
  const { limited_by: limit = {}, frontier = {}, disk = {} } = status;
  const { hosts = {}, slots = {} } = frontier;
  const reason = REASONS[limit.reason];
  return [
    heading(['Held back by ', reasonName(status), '.'], foreign(limit.detail ?? '')),
    h('p', { class: 'note w12' }, h('b', {}, 'What to do: '), reason?.[2] ?? 'This version of the page does not know this reason.'),
    card(12, 'Stages', 'queue before each stage, of its capacity', flow(status, 'row'), stages(status)),
    card(6, 'Where work waits', 'now', waits(status, limit.reason)),
    card(6, 'Hosts by state', 'now', shares('Hosts by state', [
      { label: 'free to ask', value: hosts.ready ?? 0 }, { label: 'asked now', value: hosts.busy ?? 0 }, { label: 'resting', value: hosts.resting ?? 0 },
      { label: 'backing off', value: hosts.backing_off ?? 0 }, { label: 'loading', value: hosts.loading ?? 0 }]),
    h('h3', {}, 'Addresses'), shares('Addresses by state', [{ label: 'busy', value: slots.busy ?? 0 }, { label: 'idle', value: slots.idle ?? 0 }]),
    h('p', { class: 'dim' }, 'Hosts with one address take turns: the address rests too.')),
    card(6, 'Hosts free to ask', 'last 60 minutes', chart.slot()),
    card(6, 'Room', null, facts(
      ['disk', bytes(disk.free_bytes, 'status:disk.free_bytes'), ' free'],
      ['full in', disk.full_in_s ? lasting(disk.full_in_s, 'status:disk.full_in_s') : 'not in sight'],
      ['frontier', num(frontier.queued, 'status:frontier.queued'), ' URLs queued, ', num(frontier.later, 'status:frontier.later'), ' for later, ', num(frontier.parked, 'status:frontier.parked'), ' parked'],
      ['empty in', status.drain_in_s ? ['about ', lasting(status.drain_in_s, 'status:drain_in_s')] : 'not in sight'],
      ['open', count(frontier.tickets_open ?? 0, 'ticket'), ', ', count(frontier.offers_waiting ?? 0, 'offer'), ' waiting'])),
  ];
}

function stages(status) {
  if (!status.stages?.length) return empty('No stage is running.');
  return table({ caption: 'Stages and their queues', rows: status.stages, key: (stage) => stage.name, columns: [
    { key: 'name', label: 'stage', cell: (stage) => foreign(stage.name, 40) },
    { key: 'length', label: 'in the queue', number: true, cell: (stage) => num(stage.length, `status:stages.${stage.name}.length`) },
    { key: 'capacity', label: 'capacity', number: true, cell: (stage) => num(stage.capacity, `status:stages.${stage.name}.capacity`) },
    { key: 'share', label: 'full', number: true, cell: (stage) => (stage.capacity ? percent(stage.length / stage.capacity) : '–') }] });
}

function waits(status, reason) {
  const rows = (status.waits ?? []).map(({ what, tickets }) => {
    const [words, unit] = WAITS[what] ?? [what, 'ticket'];
    return { label: what, value: tickets, text: count(tickets, unit), mark: what === reason, note: `${words}${what === reason ? ' ▲ this holds the crawl back' : ''}` };
  });
  return rows.length ? bars('Where work waits', rows) : empty('Nothing waits.');
}
