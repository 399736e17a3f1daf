// Log: outcomes as they come, with filters; older ones page by page.

import { crawled, foreign, h, route, visible } from './dom.js';
import { bytes, clock, full, lasting } from './format.js';
import { card, heading, loading, pill } from './parts.js';
import { table } from './table.js';

export const title = () => 'Log';
export const topics = ['status', 'log'];

/** Lines that are kept and shown. */
const LINES_MAX = 100;
/** Classes of outcomes, as the API filters them. */
const CLASSES = { ok: ['good', 'ok'], gone: ['off', 'not there'], refused: ['warn', 'refused'], retry: ['wait', 'asked again later'], broken: ['bad', 'broken'] };
/** New lines are drawn this often at most: a fast log stays readable. */
const DRAW_MS = 500;

export function open(page) {
  const { host = '', outcome = '', cursor = '' } = page.parameters;
  const asked = { host, outcome, cursor };
  const state = { lines: [], isPaused: false, isLive: !cursor, dropped: 0, waiting: [], next: '', complete: true, heard: 0 };
  page.wait(heading('Log'), filters(asked), ...loading('').slice(1));
  let timer = 0;
  const draw = () => page.show(view(asked, state, draw, page));
  page.onClose(() => clearTimeout(timer));
  const refresh = async () => {
    if (isHeld(state)) return;
    const said = await page.get('log', { ...asked, limit: LINES_MAX });
    Object.assign(state, { lines: said.lines, waiting: [], next: said.cursor ?? '', complete: said.complete !== false });
    draw();
  };
  page.once(refresh);
  if (!state.isLive) return;
  page.on('log', (event) => {
    const lines = Array.isArray(event) ? event : [event];
    state.heard = Date.now();
    const wanted = lines.filter((line) => matches(line, asked));
    state.waiting = [...wanted.reverse(), ...state.waiting].slice(0, LINES_MAX);
    if (!isHeld(state)) state.lines = [...state.waiting.splice(0), ...state.lines].slice(0, LINES_MAX);
    timer ||= setTimeout(() => {
      timer = 0;
      draw();
    }, DRAW_MS);
  });
  page.on('dropped', (event) => (state.dropped += Number(event.lines) || 0));
  // Behind a proxy that holds events back, the log is asked for instead.
  page.every(3, async () => {
    if (Date.now() - state.heard > 5000) await refresh();
  });
}

/** New lines wait while the log is paused, and while a line has the focus: it would move away under who reads by keyboard. */
function isHeld(state) {
  return state.isPaused || Boolean(document.activeElement?.closest('main table, main .pager'));
}

/** The filters of the API, for lines that come by themselves. */
function matches(line, { host, outcome }) {
  const text = outcome.toLowerCase();
  if (text && ![line.outcome, line.class, String(line.status)].includes(text)) return false;
  return !host || nameOf(line.url) === nameOf(host) || nameOf(line.url).endsWith(`.${nameOf(host)}`);
}

function nameOf(url) {
  try {
    return new URL(String(url).includes('://') ? url : `http://${url}/`).host;
  } catch {
    return String(url);
  }
}

function view(asked, state, redraw) {
  const pause = () => {
    state.isPaused = !state.isPaused;
    if (!state.isPaused) state.lines = [...state.waiting.splice(0), ...state.lines].slice(0, LINES_MAX);
    redraw();
  };
  return [
    heading('Log', state.isLive ? (isHeld(state) ? `${state.isPaused ? 'Paused' : 'A line has the focus'}; ${full(state.waiting.length)}${state.waiting.length >= LINES_MAX ? ' or more' : ''} new lines wait.` : 'Newest first, as they come.') : 'Older lines.',
      state.dropped ? ` ${full(state.dropped)} lines came too fast and were left out here; the log of the crawl has them.` : ''),
    filters(asked),
    card(12, 'Requests', state.isLive ? h('button', { type: 'button', 'aria-pressed': String(state.isPaused), on: { click: pause } }, state.isPaused ? 'Go on' : 'Pause') : h('a', { href: route('log', { host: asked.host, outcome: asked.outcome }) }, 'back to the newest'),
      table({ caption: 'Requests, newest first', rows: state.lines, key: (line) => `${line.at} ${line.url}`, none: state.complete ? 'No line matches.' : 'No line matches in the part of the log that was read. Go on with “Older lines”.', columns: columns() }),
      h('p', { class: 'pager' }, state.next ? h('a', { class: 'step', href: route('log', { ...asked, cursor: state.next }) }, 'Older lines →') : h('span', { class: 'step off' }, 'Older lines →'))),
  ];
}

function columns() {
  return [
    { key: 'at', label: 'at', cell: (line) => h('time', { datetime: line.at, title: line.at }, clock(line.at)) },
    { key: 'outcome', label: 'outcome', cell: (line) => [pill(CLASSES[line.class]?.[0] ?? 'none', visible(line.outcome, 60)), line.status ? ` ${line.status}` : '', line.purpose && line.purpose !== 'page' ? h('div', { class: 'dim' }, visible(line.purpose, 30)) : null] },
    { key: 'url', label: 'URL', cell: (line) => [crawled(line.url, 200), line.title ? h('div', { class: 'dim' }, foreign(line.title, 160)) : null, line.redirect ? h('div', { class: 'dim' }, '→ ', crawled(line.redirect, 160)) : null, line.detail ? h('div', { class: 'dim' }, foreign(line.detail, 200)) : null] },
    { key: 'took', label: 'took', number: true, cell: (line) => (line.took_ms === undefined ? '–' : lasting(line.took_ms / 1000)) },
    { key: 'bytes', label: 'size', number: true, cell: (line) => bytes(line.bytes) },
    { key: 'mime', label: 'type', class: 'code', cell: (line) => (line.mime ? h('code', {}, foreign(line.mime, 60)) : '–') },
    { key: 'address', label: 'from', class: 'code', cell: (line) => [line.address ? h('code', {}, foreign(line.address, 60)) : '–', line.node ? h('div', { class: 'dim' }, 'node ', foreign(line.node, 60)) : null] },
  ];
}

function filters(asked) {
  const submit = (event) => {
    event.preventDefault();
    location.hash = route('log', Object.fromEntries(new FormData(event.target)));
  };
  return h('form', { class: 'fields w12', role: 'search', 'aria-label': 'Log', on: { submit } },
    h('p', {}, h('label', { for: 'log-host' }, 'Host'), h('input', { id: 'log-host', name: 'host', value: visible(asked.host, 300), maxlength: 300, spellcheck: 'false' })),
    h('p', {}, h('label', { for: 'log-outcome' }, 'Outcome, class or status'), h('input', { id: 'log-outcome', name: 'outcome', value: visible(asked.outcome, 60), maxlength: 60, list: 'outcomes', spellcheck: 'false' }),
      h('datalist', { id: 'outcomes' }, [...Object.keys(CLASSES), 'rate-limited', 'unavailable', 'not-found', 'robots-denied', '200', '404', '429', '503'].map((value) => h('option', { value })))),
    h('p', {}, h('button', { type: 'submit', class: 'main' }, 'Show')));
}

