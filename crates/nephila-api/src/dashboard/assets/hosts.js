// Hosts: a table of all hosts with filters and order, page by page, and the picture of the page that is shown.

import { scatter } from './charts.js';
import { foreign, h, hostLink, route, visible } from './dom.js';
import { ago, full, lasting, num, span } from './format.js';
import { card, heading, loading, pill, step } from './parts.js';
import { table } from './table.js';

export const title = () => 'Hosts';

const LIMIT = 50;
/** States of a host: shape and words. */
export const STATES = {
  ready: ['good', 'free to ask'], busy: ['busy', 'asked now'], resting: ['wait', 'resting'], backing_off: ['warn', 'backing off'],
  loading: ['wait', 'loading'], stopped: ['off', 'stopped'], idle: ['none', 'no URL left'],
};
const SORTS = { queued: 'most URLs queued', done: 'most fetched', errors: 'most failures in a row', next: 'next request first' };

export const hostState = (row) => pill(...(STATES[row.state] ?? ['none', row.state]));

/** When the host is asked next. */
export function nextRequest(row) {
  if (row.next_in_s === undefined || row.next_in_s === null) return h('span', { class: 'none' }, '–');
  return row.next_in_s <= 0 ? 'now' : h('span', {}, 'in ', lasting(row.next_in_s));
}

export function open(page) {
  const { sort = 'queued', state = '', match = '', cursor = '' } = page.parameters;
  const asked = { sort, state, match, cursor, limit: LIMIT };
  let answer = null;
  page.wait(heading('Hosts'), filters(asked), ...loading('').slice(1));
  page.every(3, async () => {
    answer = await page.get('hosts', asked);
    page.show(view(page, answer, asked));
  });
}

const link = ({ sort, state, match, cursor }) => route('hosts', { sort, state, match, cursor });

function view(page, answer, asked) {
  const rows = answer.hosts.slice(0, LIMIT);
  const waits = answer.complete === false ? 'at least ' : '';
  return [
    heading('Hosts', `Looked at ${waits}${full(answer.looked_at ?? rows.length)} hosts, in order of: ${SORTS[asked.sort] ?? asked.sort}.`,
      answer.complete === false ? ' There are more hosts than one request looks at; narrow the search to see the rest.' : ''),
    filters(asked),
    card(12, asked.cursor ? 'More hosts' : 'Hosts', pager(answer, asked),
      table({ caption: 'Hosts', rows, key: (row) => row.origin, columns: columns(), sort: { key: asked.sort, desc: asked.sort !== 'next' }, none: 'No host matches.',
        onSort: (sort) => (location.hash = link({ ...asked, sort, cursor: '' })) }),
      h('p', { class: 'pager' }, pager(answer, asked))),
    rows.length > 1 ? card(12, 'Queue and wait', `the ${rows.length} hosts above`, picture(rows)) : null,
  ];
}

function columns() {
  return [
    { key: 'origin', label: 'host', cell: (row) => hostLink(row.origin) },
    { key: 'state', label: 'state', cell: (row) => [hostState(row), row.stopped ? h('div', { class: 'dim' }, foreign(row.stopped, 120)) : null] },
    { key: 'queued', label: 'queued', number: true, sort: true, cell: (row) => [num(row.queued), row.later ? h('div', { class: 'dim' }, `${full(row.later)} later`) : null, row.parked ? h('div', { class: 'dim' }, `${full(row.parked)} parked`) : null] },
    { key: 'done', label: 'done', number: true, sort: true, cell: (row) => num(row.done) },
    { key: 'errors', label: 'failures in a row', number: true, sort: true, cell: (row) => num(row.errors) },
    { key: 'next', label: 'next request', number: true, sort: true, cell: nextRequest },
    { key: 'delay', label: 'promised gap', number: true, cell: (row) => lasting(row.delay_s) },
    { key: 'last', label: 'last outcome', class: 'code', cell: (row) => [row.last_outcome ? h('code', {}, foreign(row.last_outcome, 60)) : '–', row.last_at ? h('div', { class: 'dim' }, ago(row.last_at)) : null] },
    { key: 'address', label: 'address', class: 'code', cell: (row) => (row.address ? h('code', {}, foreign(row.address, 60)) : '–') },
  ];
}

function filters(asked) {
  const options = (all, chosen) => all.map(([value, label]) => h('option', { value, selected: value === chosen }, label));
  const submit = (event) => {
    event.preventDefault();
    const { match, state, sort } = Object.fromEntries(new FormData(event.target));
    location.hash = link({ match, state, sort });
  };
  return h('form', { class: 'fields w12', role: 'search', 'aria-label': 'Hosts', on: { submit } },
    h('p', {}, h('label', { for: 'match' }, 'Name contains'), h('input', { id: 'match', name: 'match', value: visible(asked.match, 300), maxlength: 300, spellcheck: 'false' })),
    h('p', {}, h('label', { for: 'state' }, 'State'), h('select', { id: 'state', name: 'state' }, options([['', 'all'], ...Object.entries(STATES).map(([value, [, label]]) => [value, label])], asked.state))),
    h('p', {}, h('label', { for: 'sort' }, 'Order'), h('select', { id: 'sort', name: 'sort' }, options(Object.entries(SORTS), asked.sort))),
    h('p', {}, h('button', { type: 'submit', class: 'main' }, 'Show')));
}

function pager(answer, asked) {
  return [step(asked.cursor ? link({ ...asked, cursor: '' }) : '', '⇤ First page'), ' ', step(answer.cursor ? link({ ...asked, cursor: answer.cursor }) : '', 'Next page →')];
}

function picture(rows) {
  const points = rows.filter((row) => row.next_in_s !== undefined).map((row) => ({
    x: row.queued, y: Math.max(0, row.next_in_s), label: visible(`${row.origin}: ${full(row.queued)} queued, next request in ${span(row.next_in_s)}`, 300) }));
  return [scatter({ label: `${points.length} hosts by URLs queued and seconds until the next request; the table above has the numbers`, x: { label: 'URLs queued' }, y: { label: 'next request in', format: span }, points }),
    h('p', { class: 'words' }, 'To the right: many URLs. At the top: a long wait. Hosts in the upper right corner take longest. The table has the same numbers.')];
}
