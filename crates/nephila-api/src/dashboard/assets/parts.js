// Parts that several pages use: headings, cards, bars, notes, lists of facts.

import { foreign, h, visible } from './dom.js';
import { full } from './format.js';

/** The heading of a page: one sentence, and the facts below it. */
export function heading(text, ...small) {
  return h('h1', { tabindex: '-1', id: 'heading' }, text, small.length ? h('small', {}, small) : null);
}

/** A card: `width` of 12 columns. `aside` stands at the right of its heading. */
export function card(width, title, aside, ...children) {
  return h('section', { class: `w${width}` }, h('h2', {}, h('span', { class: 'title' }, title), aside ? h('span', { class: 'aside' }, aside) : null), children);
}

/** A share of something as a bar with its text; the text alone says everything. `of` is what 1 means. */
export function bar(value, of, label, kind = '') {
  const share = of > 0 ? Math.min(1, Math.max(0, value / of)) : 0;
  return h('div', { class: `bar ${kind}`, role: 'img', 'aria-label': `${label}: ${full(share * 100, 0)} %` }, h('div', { css: { '--share': share } }));
}

/** A word with a shape before it, so that it can be read without colour. */
const SHAPES = { good: '●', busy: '▶', wait: '◔', warn: '▲', bad: '✖', off: '■', none: '○' };
export function pill(kind, text) {
  return h('span', { class: `pill ${kind}` }, h('span', { 'aria-hidden': 'true' }, `${SHAPES[kind] ?? SHAPES.none} `), text);
}

/** The verdict of a whole page, for its heading: the same words and shapes, as large as the heading. */
export function verdict(kind, text) {
  return h('span', { class: `verdict ${kind}` }, h('span', { 'aria-hidden': 'true' }, `${SHAPES[kind] ?? SHAPES.none} `), text);
}

/** Pairs of a name and a fact; pairs without a fact are left out. */
export function facts(...pairs) {
  const shown = pairs.filter((pair) => pair && pair[1] !== undefined && pair[1] !== null && pair[1] !== '');
  return h('dl', { class: 'facts' }, shown.map(([name, ...fact]) => [h('dt', {}, name), h('dd', {}, fact)]));
}

/** Nothing is here, and that is no fault. */
export function empty(text, ...more) {
  return h('p', { class: 'empty' }, text, more);
}

/** A page that has no data yet. */
export function loading(title) {
  return [heading(title), h('p', { class: 'loading w12', role: 'status' }, 'Loading …')];
}

/** Why a part of the page is missing. */
export function partNote(problem, what) {
  if (problem.status === 404 || problem.status === 405) return empty(`This node does not offer ${what}.`);
  return h('p', { class: 'note warn' }, h('b', {}, `${what} cannot be shown: `), foreign(problem.title),
    problem.detail ? [': ', foreign(problem.detail)] : null);
}

/** An error answer of the API, for the whole page. */
export function problemNote(problem, { again, hasNumbers } = {}) {
  const isProblem = 'status' in problem;
  const title = isProblem ? problem.title : 'this page has a fault';
  const detail = isProblem ? problem.detail : visible(problem.message);
  const isAbsent = problem.status === 404;
  return h('div', { class: `note ${isAbsent ? 'warn' : 'bad'}`, role: 'alert' },
    h('b', {}, isAbsent ? null : pill('bad', 'Error: '), foreign(title)),
    detail ? h('p', {}, foreign(detail)) : null,
    h('p', { class: 'dim' }, advice(problem), hasNumbers ? ' The numbers below are older.' : ''),
    again ? h('button', { type: 'button', on: { click: again } }, 'Try again') : null);
}

function advice(problem) {
  switch (problem.status) {
    case undefined: return 'Reload the page. If the fault comes again, the page and the node may be of different versions.';
    case 0: return 'The page tries again by itself.';
    case 400: return 'Change the request.';
    case 403: return 'Your token does not permit this. Sign in with another one on the page Settings.';
    case 404: return 'This node does not have it. A finished archive, for example, has no frontier and no jobs.';
    case 429: return `Too many requests${problem.retryAfter ? `; the page asks again in ${problem.retryAfter} s` : ''}.`;
    case 503: return 'A partition or a lease is moving, or the node waits for its servers. The page tries again by itself.';
    default: return 'The page tries again by itself. The log of the node says more.';
  }
}

/** A link to another page of a list, or the same words without a link. */
export function step(href, text) {
  return href ? h('a', { class: 'step', href }, text) : h('span', { class: 'step off', 'aria-disabled': 'true' }, text);
}
