// Tables: captions, sortable headers as buttons, pages. No table has more than ROWS_MAX rows at a time.

import { h, scroller, visible } from './dom.js';
import { full } from './format.js';
import { empty } from './parts.js';

/** Most rows of one page of a table. */
export const ROWS_MAX = 100;

/**
 * A table. A column is `{key, label, cell(row), number, sort}`: `number` aligns right, `sort` makes the header a button.
 * `sort` of the table is `{key, desc}`, `onSort(key)` is called by the buttons. Below 640 pixels each row becomes a card.
 */
export function table({ caption, columns, rows, key, sort, onSort, none = 'Nothing is here.', wide = false }) {
  if (!rows.length) return empty(none);
  const head = columns.map((column) => header(column, sort, onSort));
  const seen = new Map();
  const keyOf = (row, index) => {
    const name = key ? visible(key(row), 200) : String(index);
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return seen.get(name) > 1 ? `${name} ${seen.get(name)}` : name;
  };
  const body = rows.slice(0, ROWS_MAX).map((row, index) =>
    h('tr', { role: 'row', 'data-key': keyOf(row, index) }, columns.map((column, at) => {
      const attributes = { class: column.number ? 'n' : column.class, 'data-label': column.label };
      return at === 0 ? h('th', { ...attributes, scope: 'row', role: 'rowheader' }, column.cell(row)) : h('td', { ...attributes, role: 'cell' }, column.cell(row));
    })));
  const made = h('table', { class: wide ? '' : 'cards', role: 'table' },
    h('caption', { class: 'hidden' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)),
    h('tbody', { role: 'rowgroup' }, body));
  return scroller(caption, made);
}

function header(column, sort, onSort) {
  const isSorted = sort?.key === column.key;
  const order = isSorted ? (sort.desc ? 'descending' : 'ascending') : undefined;
  const attributes = { scope: 'col', role: 'columnheader', class: `${column.number ? 'n' : ''} ${column.sort ? 'can' : 'plain'}`.trim() };
  if (!column.sort || !onSort) return h('th', attributes, column.label);
  const arrow = isSorted ? (sort.desc ? ' ▼' : ' ▲') : ' ↕';
  return h('th', { ...attributes, 'aria-sort': order },
    h('button', { type: 'button', class: 'sort', on: { click: () => onSort(column.key) } }, column.label, h('span', { 'aria-hidden': 'true' }, arrow)));
}

/** Sorting and paging of a list that is in memory. `state` belongs to the page: `{key, desc, from}`. */
export function local({ caption, columns, rows, state, size = 50, redraw, ...more }) {
  const column = columns.find(({ key }) => key === state.key);
  const order = column?.value ? [...rows].sort((a, b) => compare(column.value(a), column.value(b)) * (state.desc ? -1 : 1)) : rows;
  const from = Math.min(state.from ?? 0, Math.max(0, Math.floor((order.length - 1) / size) * size));
  const onSort = (key) => {
    state.desc = state.key === key ? !state.desc : Boolean(columns.find((one) => one.key === key)?.number);
    Object.assign(state, { key, from: 0 });
    redraw();
  };
  const go = (to) => () => {
    state.from = to;
    redraw();
  };
  const made = table({ caption, columns, rows: order.slice(from, from + size), sort: state, onSort, ...more });
  if (order.length <= size) return made;
  return [made, h('p', { class: 'pager' },
    h('button', { type: 'button', disabled: from === 0, on: { click: go(Math.max(0, from - size)) } }, '← Before'),
    h('span', {}, `${full(from + 1)} to ${full(Math.min(order.length, from + size))} of ${full(order.length)}`),
    h('button', { type: 'button', disabled: from + size >= order.length, on: { click: go(from + size) } }, 'Next →'))];
}

function compare(a, b) {
  const isNone = (value) => value === undefined || value === null || value === '';
  if (isNone(a) || isNone(b)) return Number(isNone(b)) - Number(isNone(a));
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a) < String(b) ? -1 : Number(String(a) > String(b));
}
