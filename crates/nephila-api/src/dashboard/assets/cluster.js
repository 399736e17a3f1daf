// Cluster: the nodes, who owns which partition, spiders, and the way to take a node out.

import { send } from './api.js';
import { foreign, h, visible } from './dom.js';
import { count, full, num } from './format.js';
import { bar, card, empty, heading, partNote, pill, verdict } from './parts.js';
import { local, table } from './table.js';

export const title = () => 'Cluster';

/** Letters of the owners in the grid; colours repeat after 8, letters after 52. */
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const COLOURS = 8;
/** Partitions drawn as cells; a larger cluster is shown as the table alone. */
const CELLS_MAX = 4096;
/** Alarms that are seen at once, and those behind “more”. */
const ALARMS = 8;
const ALARMS_MAX = 100;
/** A partition counts as just moved for this long. */
const MOVED_MS = 30_000;

export function open(page) {
  const data = { cluster: null, nodes: null, partitions: null, spiders: null, pins: null, spread: null, owners: new Map(), moves: [] };
  const state = { spiders: { key: 'name' }, pins: { key: 'domain' } };
  const draw = () => data.cluster && page.show(view(page, data, state, draw, again));
  const again = page.every(1, async () => {
    if ((await page.mode()) !== 'cluster') {
      data.cluster = { problem: { status: 404 } };
      return draw();
    }
    const [cluster, nodes, partitions] = await Promise.all([page.part('cluster'), page.part('cluster/nodes'), page.part('cluster/partitions')]);
    Object.assign(data, { cluster, nodes, partitions });
    note(data);
    draw();
  });
  page.every(5, async () => {
    data.spiders = await page.part('spiders');
    draw();
    if ((await page.mode()) !== 'cluster') return;
    const [pins, spread] = await Promise.all([page.part('cluster/pins'), page.part('cluster/spread')]);
    Object.assign(data, { pins, spread });
    draw();
  });
}

/** Remembers who owned what, so that moves while the page is open can be shown. */
function note(data) {
  for (const { partition, node = '' } of data.partitions?.value ?? []) {
    const before = data.owners.get(partition);
    if (before && before.node !== node) {
      data.moves.unshift({ partition, from: before.node, to: node, at: Date.now(), after: node && !before.node ? (Date.now() - before.at) / 1000 : undefined });
      data.moves.length = Math.min(data.moves.length, CELLS_MAX);
    }
    if (!before || before.node !== node) data.owners.set(partition, { node, at: before ? Date.now() : 0 });
  }
}

function view(page, data, state, redraw, again) {
  const { cluster, nodes } = data;
  if (cluster.problem) return single(page, cluster.problem, data, state, redraw);
  const said = cluster.value;
  const isWhole = !said.without_owner;
  return [
    heading(isWhole ? `${count(said.nodes.length, 'node')}, every partition has an owner.` : verdict('bad', `${full(said.without_owner)} of ${full(said.partitions)} partitions have no owner.`),
      num(said.partitions, 'cluster:partitions'), ' partitions · ', num(said.without_owner, 'cluster:without_owner'), ' without an owner · ', num(said.nodes.length, 'cluster:nodes.length'), ' nodes'),
    said.alarms?.length ? card(12, 'Alarms', null, alarmList(said.alarms)) : null,
    card(12, 'Nodes', null, nodes?.problem ? partNote(nodes.problem, 'the nodes') : nodeTable(page, nodes?.value ?? said.nodes, said, again)),
    card(8, 'Partitions by owner', moved(data), grid(data)),
    card(4, 'Moves', 'while this page is open', moves(data.moves)),
    card(6, 'Spiders', 'programs that fetch for a node', spiders(data.spiders, state.spiders, redraw)),
    card(6, 'Domains with a place', null, pins(data, state.pins, redraw)),
  ];
}

function alarmList(all) {
  const list = (some) => h('ul', { class: 'plain' }, some.map((alarm) => h('li', {}, pill('warn', 'Alarm: '), ' ', foreign(alarm, 500))));
  const more = all.slice(ALARMS, ALARMS_MAX);
  return [list(all.slice(0, ALARMS)), more.length ? h('details', {}, h('summary', {}, `${full(all.length - ALARMS)} more`), list(more)) : null];
}

function single(page, problem, data, state, redraw) {
  if (problem.status !== 404) return [heading('Cluster'), h('div', { class: 'w12' }, partNote(problem, 'the cluster'))];
  return [heading('This is one machine, not a cluster.', 'One process does all the work: it owns every host.'),
    card(6, 'Spiders', 'programs that fetch for this machine', spiders(data.spiders, state.spiders, redraw)),
    card(6, 'Go on to a cluster', null, h('p', {}, 'The manual describes the way in ', h('code', {}, 'docs/operating.md'), '.'))];
}

const names = (data) => [...new Set([...(data.nodes?.value ?? data.cluster.value.nodes).map((node) => node.name), ...[...data.owners.values()].map(({ node }) => node).filter(Boolean)])].sort();
const letter = (at) => LETTERS[at % LETTERS.length];
const key = (at) => h('span', { class: `key o${at % COLOURS}`, 'aria-hidden': 'true' }, letter(at));

function nodeTable(page, rows, said, again) {
  const order = [...rows.map((node) => node.name)].sort();
  return table({ caption: 'Nodes', rows, key: (node) => node.name, none: 'No node is alive.', columns: [
    { key: 'name', label: 'node', cell: (node) => [key(order.indexOf(node.name)), foreign(node.name, 80), h('div', { class: 'dim' }, foreign(node.address || 'no address', 80))] },
    { key: 'state', label: 'state', cell: (node) => nodeState(node) },
    { key: 'partitions', label: 'partitions', number: true, cell: (node) => [num(node.partitions, `node:${node.name}.partitions`), bar(node.partitions, said.partitions, 'Share of the partitions')] },
    { key: 'queued', label: 'URLs queued', number: true, cell: (node) => num(node.stats?.urls_waiting) },
    { key: 'hosts', label: 'hosts at work', number: true, cell: (node) => num(node.stats?.hosts_active) },
    { key: 'open', label: 'open tickets', number: true, cell: (node) => num(node.stats?.tickets_open) },
    { key: 'commit', label: 'longest commit', number: true, cell: (node) => (node.stats ? [num(node.stats.commit_ms_max), ' ms'] : '–') },
    { key: 'alarms', label: 'alarms', cell: (node) => (node.alarms?.length ? node.alarms.slice(0, 5).map((alarm) => h('div', {}, '▲ ', foreign(alarm, 300))) : 'none') },
    { key: 'actions', label: 'change', class: 'actions', cell: (node) => drain(page, node, again) }] });
}

function nodeState(node) {
  if (node.draining) return pill('wait', 'leaving');
  return pill({ crawling: 'busy', ready: 'good' }[node.state] ?? 'bad', node.state === 'unknown' ? 'no answer' : visible(node.state, 40));
}

function drain(page, node, again) {
  if (node.draining) return h('span', { class: 'dim' }, 'hands over');
  return page.actions.button({ label: 'Drain', about: node.name, kind: 'danger', status: page.status, title: `Take the node ${node.name} out of the cluster`, done: again,
    says: `The node hands its ${full(node.partitions)} partitions to the others, ends its open requests and leaves. Nothing is lost. Its process ends; start it again to bring it back. This cannot be cancelled.`,
    run: () => send('POST', `cluster/drain/${encodeURIComponent(node.name)}`) });
}

function moved(data) {
  const last = data.moves[0];
  return last ? `last move ${Math.round((Date.now() - last.at) / 1000)} s ago` : 'no move while this page is open';
}

/** A cell for each partition: letter and colour of the owner; without an owner it is hatched and has a mark. */
function grid(data) {
  const list = data.partitions?.value;
  if (data.partitions?.problem) return partNote(data.partitions.problem, 'the partitions');
  if (!list) return h('p', { class: 'loading' }, 'Loading …');
  const order = names(data);
  const counts = order.map((name) => list.filter((partition) => partition.node === name).length);
  const none = list.filter((partition) => !partition.node).length;
  const words = `${order.map((name, at) => `${name} owns ${counts[at]}`).join(', ')}${none ? `, ${none} have no owner` : ''}`;
  const cells = list.slice(0, CELLS_MAX).map(({ partition, node, epoch }) => {
    const at = order.indexOf(node);
    const changed = Date.now() - (data.owners.get(partition)?.at ?? 0) < MOVED_MS;
    const title = `partition ${partition}: ${node ? visible(node, 80) : 'no owner'}, epoch ${epoch}`;
    return node ? h('span', { class: `o${at % COLOURS} ${changed ? 'moved' : ''}`, title }, letter(at)) : h('span', { class: 'gone', title }, '!');
  });
  return [h('div', { class: `cells ${list.length > 256 ? 'many' : ''}`, role: 'img', 'aria-label': visible(`Partitions by owner: ${words}`, 1000) }, cells),
    h('ul', { class: 'legend' }, order.slice(0, 60).map((name, at) => h('li', {}, key(at), foreign(name, 60), ` ${counts[at]}`)), none ? h('li', {}, `! no owner ${none}`) : null, h('li', {}, '▢ framed: has just moved')),
    list.length > CELLS_MAX ? h('p', { class: 'dim' }, `The first ${full(CELLS_MAX)} of ${full(list.length)} partitions.`) : null];
}

function moves(list) {
  if (!list.length) return empty('No partition has moved.');
  const groups = new Map();
  for (const move of list) {
    const name = `${move.from} ${move.to} ${Math.round(move.at / 2000)}`;
    groups.set(name, [...(groups.get(name) ?? []), move]);
  }
  return h('ul', { class: 'plain' }, [...groups.values()].slice(0, 10).map((group) => {
    const [{ from, to, at, after }] = group;
    const who = group.length === 1 ? `partition ${group[0].partition}` : `${group.length} partitions`;
    return h('li', {}, h('time', { datetime: new Date(at).toISOString() }, new Date(at).toISOString().slice(11, 19)), ` ${who}: `, from ? foreign(from, 60) : 'no owner', ' → ', to ? foreign(to, 60) : 'no owner', after === undefined ? '' : `, after ${full(after, 0)} s`);
  }));
}

function spiders(part, state, redraw) {
  if (!part) return h('p', { class: 'loading' }, 'Loading …');
  if (part.problem) return partNote(part.problem, 'the list of spiders');
  return local({ caption: 'Spiders', rows: part.value, state, redraw, size: 25, key: (spider) => `${spider.node} ${spider.name}`, none: 'No spider is connected: each node fetches by itself.', columns: [
    { key: 'name', label: 'spider', sort: true, value: (spider) => spider.name, cell: (spider) => [foreign(spider.name, 80), spider.node ? h('div', { class: 'dim' }, 'for ', foreign(spider.node, 80)) : null] },
    { key: 'connected', label: 'state', cell: (spider) => (spider.connected ? pill('good', 'connected') : pill('bad', 'away')) },
    { key: 'open', label: 'open', number: true, cell: (spider) => [num(spider.open), ' of ', num(spider.capacity)] },
    { key: 'fetched', label: 'fetched', number: true, sort: true, value: (spider) => spider.fetched, cell: (spider) => num(spider.fetched) }] });
}

function pins(data, state, redraw) {
  const pinned = (data.pins?.value ?? []).map((pin) => ({ domain: pin.domain, text: ['on ', foreign(pin.node, 80), pin.owner && pin.owner !== pin.node ? [', now still on ', foreign(pin.owner, 80)] : ''] }));
  const spread = (data.spread?.value ?? []).map((one) => ({ domain: one.domain, text: one.refused ? 'cannot be divided: it has too many hosts already' : 'divided over all nodes' }));
  return local({ caption: 'Domains with a place', rows: [...pinned, ...spread], state, redraw, size: 25, key: (row) => row.domain, none: 'Each domain goes where its name leads it.', columns: [
    { key: 'domain', label: 'domain', sort: true, value: (row) => row.domain, cell: (row) => foreign(row.domain, 120) }, { key: 'place', label: 'place', cell: (row) => row.text }] });
}
