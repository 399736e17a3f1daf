// The stages of a crawl as a row, and what each reason of "held back by" means. Used by Overview and Limits.

import { h } from './dom.js';
import { full, short } from './format.js';
import { bar } from './parts.js';

/** Reasons of `limited_by`: the stage at which work waits, a short name, and what an operator can do. */
export const REASONS = {
  politeness: ['frontier', 'politeness', 'This is as it should be: hosts rest between two requests. More hosts at a time make the crawl faster; a shorter delay would be less polite.'],
  backoff: ['frontier', 'hosts that fail', 'Hosts that failed or asked for a pause are left alone for a while. The page Hosts, state “backing off”, shows which.'],
  robots: ['frontier', 'robots.txt', 'robots.txt has to be read before the first page of a host. The page Politeness shows which hosts do not give theirs.'],
  dns: ['frontier', 'name resolution', 'The resolver is slow or does not answer. Check the resolver, or name another one.'],
  limit: ['frontier', 'a limit of a job', 'A job has reached one of its limits. The page of the job shows the limits.'],
  paused: ['frontier', 'a pause', 'The jobs are paused. Resume them on the page Jobs.'],
  lease: ['frontier', 'the lease of the node', 'The node holds no lease, so it fetches nothing. Check that the servers of the cluster answer.'],
  connections: ['fetch', 'the number of connections', 'All connections are in use. Raise the number of concurrent fetches, if the machine and the line have room.'],
  answers: ['fetch', 'slow answers', 'Servers take long to answer. Nothing here is full; more hosts at a time would help.'],
  read: ['read', 'reading of pages', 'Pages come faster than they are read. The processor is the limit: more cores, or another node.'],
  store: ['store', 'the archive', 'Pages come faster than they are written. The disk is the limit.'],
  disk: ['store', 'a full disk', 'The disk is full, so nothing is fetched until there is room. Free space, or move archive files that are uploaded.'],
  objects: ['store', 'the object store', 'The object store does not take files. Check that it answers and that its keys are valid.'],
  log: ['log', 'the log', 'Entries wait for the log to become durable. Check the disk of the log, or the servers of the cluster.'],
  stopping: [null, 'the end of the process', 'The process is stopping: open requests end, and no new ones begin.'],
  archive: [null, 'nothing', 'This is a finished archive.'],
  nothing: [null, 'nothing', 'Nothing holds the crawl back: it has no more work, or it runs as fast as it can.'],
};

/** Names and units of the queues before each stage. */
const STAGES = { offer: ['Intake', 'offers wait'], fetch: ['Fetching', 'connections'], read: ['Reading', 'pages wait'], store: ['Archive', 'pages wait'], log: ['Log', 'groups wait'] };
const ORDER = ['offer', 'frontier', 'fetch', 'read', 'store', 'log'];

/** What holds the crawl back, in words. */
export const reasonName = (status) => REASONS[status.limited_by?.reason]?.[1] ?? String(status.limited_by?.reason ?? 'not known');

/** The stages of the crawl in their order, the one that holds back marked by words, a shape and a colour. */
export function flow(status, kind = '') {
  const held = REASONS[status.limited_by?.reason]?.[0];
  const known = new Map((status.stages ?? []).map((stage) => [stage.name, stage]));
  const names = [...ORDER.filter((name) => name === 'frontier' || known.has(name)), ...[...known.keys()].filter((name) => !ORDER.includes(name))];
  return h('ul', { class: `flow ${kind}`, 'aria-label': 'Stages of the crawl in their order' }, names.map((name) => {
    const [title, unit] = STAGES[name] ?? [name, 'wait'];
    const isHeld = name === held;
    return h('li', { class: isHeld ? 'hold' : '', 'data-key': name },
      h('b', {}, name === 'frontier' ? 'Frontier' : title),
      name === 'frontier' ? frontier(status) : queue(known.get(name), title, unit, isHeld),
      isHeld ? h('span', { class: 'held' }, '▲ held back here: ', reasonName(status)) : null);
  }));
}

function queue(stage, title, unit, isHeld) {
  return [bar(stage.length, stage.capacity, title, isHeld ? 'warn' : ''),
    h('span', { class: 'says', title: `${full(stage.length)} of ${full(stage.capacity)}` }, `${short(stage.length)} of ${short(stage.capacity)} ${unit}`)];
}

function frontier(status) {
  const hosts = status.frontier?.hosts ?? {};
  const waiting = (hosts.resting ?? 0) + (hosts.backing_off ?? 0) + (hosts.loading ?? 0);
  const all = waiting + (hosts.ready ?? 0) + (hosts.busy ?? 0);
  return [bar(waiting, all, 'Hosts that rest', REASONS[status.limited_by?.reason]?.[0] === 'frontier' ? 'warn' : ''),
    h('span', { class: 'says' }, `${short(waiting)} hosts rest, ${short(hosts.ready ?? 0)} are free to ask`)];
}
