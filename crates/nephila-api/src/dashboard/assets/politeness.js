// Politeness: did anybody get more requests than promised? The tightest gaps, the addresses, robots.txt, the stop list.

import { field, stopList } from './actions.js';
import { crawled, foreign, h, hostLink, s } from './dom.js';
import { ago, count, full, lasting, num, time } from './format.js';
import { card, empty, heading, partNote, pill, verdict } from './parts.js';
import { local, table } from './table.js';

export const title = () => 'Politeness';

export function open(page) {
  let [said, stops] = [null, null];
  const state = { stops: { key: 'at', desc: true, from: 0 }, slots: { key: 'requests', desc: true }, tightest: { key: '' }, parked: { key: 'parked', desc: true }, robots: { key: 'since' } };
  const { url } = page.parameters;
  const draw = () => said && page.show(view(page, said, stops, state, draw, again, url));
  page.every(5, async () => {
    said = await page.get('politeness', { url });
    draw();
  });
  const again = page.every(1, async () => {
    stops = await page.part('stops');
    draw();
  });
}

function view(page, said, stops, state, redraw, again, url) {
  const broken = said.violations ?? 0;
  return [
    heading(broken ? verdict('bad', `${count(broken, 'request')} came sooner than promised.`) : verdict('good', 'Nobody was asked sooner than promised.'),
      num(said.requests, 'politeness:requests'), ' requests', said.from ? [' from ', time(said.from), ' to ', time(said.to)] : '', ' · ', num(said.violations, 'politeness:violations'), ' violations',
      said.complete === false ? ' · only the newest part of the log was read' : '', url ? [' · only ', foreign(url, 200)] : ''),
    said.exceptions?.length ? card(12, 'Requests that came too soon', null, exceptions(said.exceptions)) : null,
    card(6, 'Gap as a multiple of the promise', 'must begin at 1', histogram(said.histogram ?? [])),
    card(6, 'Tightest gaps', null, tightest(said.tightest ?? [], state.tightest, redraw)),
    card(6, 'Addresses with most requests', 'hosts with one address take turns', slots(said.slots ?? [], state.slots, redraw)),
    card(6, 'robots.txt cannot be read', 'nothing is fetched there until it can', robots(said.robots_unreachable ?? [], state.robots, redraw)),
    card(4, 'Parked', 'beyond the budget of a domain', parked(said.parked ?? [], state.parked, redraw)),
    card(8, 'Stop list', stops?.value ? addStop(page, again) : null, stopTable(page, stops, state.stops, redraw, again)),
    card(12, 'For others', null, h('p', {}, 'A report of one host for its operator: ', h('code', {}, 'nephila politeness report --host HOST --format html'), '. A check against the log of their server: ', h('code', {}, 'nephila politeness check --access-log FILE'), '.')),
  ];
}

function exceptions(list) {
  return table({ caption: 'Requests that came too soon', rows: list.slice(0, 50), columns: [
    { key: 'subject', label: 'host or address', cell: (row) => [pill('bad', row.kind ?? 'gap'), ' ', foreign(row.subject, 200)] }, { key: 'at', label: 'at', cell: (row) => time(row.at) },
    { key: 'had', label: 'gap', number: true, cell: (row) => (typeof row.had === 'number' ? lasting(row.had / 1000) : foreign(row.had ?? '–', 60)) },
    { key: 'promised', label: 'promised', number: true, cell: (row) => (typeof row.promised === 'number' ? lasting(row.promised / 1000) : foreign(row.promised ?? '–', 60)) },
    { key: 'url', label: 'URL', cell: (row) => crawled(row.url ?? '', 160) }, { key: 'after', label: 'after', cell: (row) => (row.after ? crawled(row.after, 160) : '–') }] });
}

/** Columns by gap ÷ promise. The limit is a line with words, a column left of it has a mark. */
function histogram(buckets) {
  const rows = buckets.slice(0, 24);
  if (!rows.some((bucket) => bucket.count)) return empty('No host was asked twice yet, so there is no gap.');
  const [width, height, base] = [520, 190, 150];
  const step = (width - 20) / rows.length;
  const most = Math.max(...rows.map((bucket) => bucket.count));
  const name = (bucket) => `${full(bucket.ratio_from, 2)}${bucket.ratio_to === undefined || bucket.ratio_to === null ? ' and more' : ` to ${full(bucket.ratio_to, 2)}`}`;
  const limit = rows.findIndex((bucket) => bucket.ratio_from >= 1);
  const below = rows.filter((bucket) => bucket.ratio_from < 1).reduce((sum, bucket) => sum + bucket.count, 0);
  return [s('svg', { viewBox: `0 0 ${width} ${height}`, class: 'plot', role: 'img', 'aria-label': `Gaps by their multiple of the promise. Below 1: ${full(below)}. The table has all.` },
    s('path', { class: 'ax', d: `M10 ${base}H${width - 10}` }),
    rows.map((bucket, index) => {
      const tall = bucket.count ? Math.max(2, (bucket.count / most) * (base - 24)) : 0;
      const isBad = bucket.ratio_from < 1;
      return [s('rect', { class: `column ${isBad ? 'bad' : ''}`, x: 12 + index * step, y: base - tall, width: step - 4, height: tall }, s('title', {}, `${name(bucket)}: ${full(bucket.count)}`)),
        isBad && bucket.count ? s('text', { x: 12 + index * step + step / 2, y: base - tall - 5, 'text-anchor': 'middle', class: 'strong' }, '▲') : null,
        s('text', { x: 12 + index * step + step / 2, y: base + 15, 'text-anchor': 'middle' }, full(bucket.ratio_from, 2))];
    }),
    limit >= 0 ? [s('path', { class: 'limit', d: `M${10 + limit * step} 8V${base}` }), s('text', { x: 14 + limit * step, y: 16 }, 'the promise')] : null,
    s('text', { x: width - 10, y: height - 4, 'text-anchor': 'end' }, 'gap ÷ promised gap')),
  h('details', {}, h('summary', {}, 'Show as a table'), table({ caption: 'Gaps by their multiple of the promise', wide: true, rows, columns: [{ key: 'ratio', label: 'gap ÷ promise', cell: name }, { key: 'count', label: 'gaps', number: true, cell: (bucket) => num(bucket.count) }] }))];
}

function tightest(rows, state, redraw) {
  return local({ caption: 'Tightest gaps', rows, state, redraw, size: 10, key: (row) => row.origin ?? row.subject, none: 'There is no gap yet.', columns: [
    { key: 'origin', label: 'host', cell: (row) => (row.origin ? hostLink(row.origin) : foreign(row.subject ?? '', 120)) },
    { key: 'gap', label: 'gap', number: true, sort: true, value: (row) => row.gap_ms, cell: (row) => [lasting(row.gap_ms / 1000), row.gap_ms < row.promised_ms ? [' ', pill('bad', 'too soon')] : null] },
    { key: 'promised', label: 'promised', number: true, sort: true, value: (row) => row.promised_ms, cell: (row) => lasting(row.promised_ms / 1000) },
    { key: 'requests', label: 'requests', number: true, sort: true, value: (row) => row.requests, cell: (row) => num(row.requests) },
    { key: 'at', label: 'at', cell: (row) => time(row.at) }] });
}

function slots(rows, state, redraw) {
  return local({ caption: 'Addresses with most requests', rows, state, redraw, size: 10, key: (row) => row.address, none: 'No address was asked yet.', columns: [
    { key: 'address', label: 'address', cell: (row) => h('code', {}, foreign(row.address, 80)) },
    { key: 'hosts', label: 'hosts', number: true, sort: true, value: (row) => row.hosts, cell: (row) => num(row.hosts) },
    { key: 'requests', label: 'requests', number: true, sort: true, value: (row) => row.requests, cell: (row) => num(row.requests) },
    { key: 'gap', label: 'tightest gap', number: true, sort: true, value: (row) => row.gap_ms, cell: (row) => (row.gap_ms === undefined ? '–' : [lasting(row.gap_ms / 1000), ' of ', lasting(row.promised_ms / 1000), row.violations ? [' ', pill('bad', `${full(row.violations)} too soon`)] : null]) }] });
}

function robots(rows, state, redraw) {
  return local({ caption: 'Hosts whose robots.txt cannot be read', rows, state, redraw, size: 10, key: (row) => row.origin, none: 'The robots.txt of every host can be read, or is known not to exist.', columns: [
    { key: 'origin', label: 'host', cell: (row) => hostLink(row.origin) }, { key: 'since', label: 'since', sort: true, value: (row) => row.since, cell: (row) => ago(row.since) }, { key: 'reason', label: 'reason', cell: (row) => foreign(row.reason ?? '–', 200) }] });
}

function parked(rows, state, redraw) {
  return local({ caption: 'Hosts with parked URLs', rows, state, redraw, size: 10, key: (row) => row.origin, none: 'No URL is parked.', columns: [
    { key: 'origin', label: 'host', cell: (row) => hostLink(row.origin) }, { key: 'parked', label: 'parked URLs', number: true, sort: true, value: (row) => row.parked, cell: (row) => num(row.parked) }] });
}

function addStop(page, again) {
  return page.actions.button({ label: 'Stop a host …', status: page.status, title: 'Put a host on the stop list', done: again,
    says: 'No node asks it any more, within seconds. URLs stay queued, and nothing that was fetched is deleted.',
    fields: [field('target', 'Host, domain (*.example.org) or address', { required: true, maxlength: 300 }), field('reason', 'Reason', { required: true, maxlength: 500 }), field('author', 'Your name', { required: true, maxlength: 100 })],
    run: ({ target, reason, author }) => stopList.add(target.trim(), reason, author) });
}

function stopTable(page, stops, state, redraw, again) {
  if (!stops) return h('p', { class: 'loading' }, 'Loading …');
  if (stops.problem) return partNote(stops.problem, 'the stop list');
  const rows = stops.value.stops ?? [];
  return local({ caption: 'Stop list', rows, state, redraw, size: 10, key: (row) => row.target, none: 'Nothing is stopped.', columns: [
    { key: 'target', label: 'never asked', sort: true, value: (row) => row.target, cell: (row) => foreign(row.target, 200) },
    { key: 'reason', label: 'reason', cell: (row) => [foreign(row.reason ?? '', 300), h('div', { class: 'dim' }, 'by ', foreign(row.author ?? '–', 60))] },
    { key: 'at', label: 'since', number: true, sort: true, value: (row) => row.at, cell: (row) => (row.at ? time(row.at) : '–') },
    { key: 'actions', label: 'change', class: 'actions', cell: (row) => page.actions.button({ label: 'Take off', about: row.target, status: page.status, title: `Ask ${row.target} again`, says: 'It is asked again, as politely as before. Its queued URLs are fetched.', run: () => stopList.remove(row.target), done: again }) }] });
}
