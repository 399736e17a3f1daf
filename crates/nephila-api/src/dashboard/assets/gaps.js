// Requests to a host against the gap that was promised, as a picture with its words: for the pages of a host.

import { h, s, scroller, visible } from './dom.js';
import { clock, full } from './format.js';
import { empty } from './parts.js';

/** Ticks of the picture: as many as can be told apart. */
const TICKS = 60;

/** Each request as a tick; below each pair, the gap that was promised as a line. A tick too early is thick and marked. */
export function picture(requests, pages, early, label = 'Requests against the promised gap') {
  if (!requests.length) return empty('The log has no request of this host.');
  const shown = requests.slice(0, TICKS).reverse();
  const [first, last] = [shown[0].at_ms, shown.at(-1).at_ms + Math.max(...shown.map((request) => request.took_ms ?? 0)) + 1];
  const [width, left, right] = [1100, 10, 1090];
  const x = (ms) => left + ((ms - first) / Math.max(1, last - first)) * (right - left);
  const tightest = pages.reduce((least, request) => (request.gap_ms / request.promised_ms < least ? request.gap_ms / request.promised_ms : least), Infinity);
  const words = pages.length
    ? `${full(pages.length)} gaps, from the end of one request to the start of the next. ${early ? `${early} were shorter than promised.` : 'None was shorter than promised.'} The tightest is ${full(tightest, 2)} times the promise.`
    : 'There is only one request, so there is no gap.';
  const drawing = s('svg', { viewBox: `0 0 ${width} 120`, class: 'plot', role: 'img', 'aria-label': `Requests as ticks. ${words}` },
    s('path', { class: 'ax', d: `M${left} 50H${right}` }), shown.map((request, index) => tick(request, shown[index - 1], x)),
    s('text', { x: left, y: 114 }, `${clock(first)} UTC`), s('text', { x: right, y: 114, 'text-anchor': 'end' }, `${clock(last)} UTC`));
  return [scroller(label, h('div', { class: 'wide' }, drawing)),
    h('ul', { class: 'legend' }, h('li', {}, '┃ a request'), h('li', {}, '┆ a request that failed'), h('li', {}, '└─ the rest that was promised before the next one'), early ? h('li', {}, '▲ sooner than promised') : null),
    h('p', { class: early ? 'note bad' : 'words' }, words, requests.length > TICKS ? ` The picture has the last ${TICKS} requests.` : '')];
}

function tick(request, before, x) {
  const at = x(request.at_ms);
  const isEarly = request.gap_ms !== undefined && request.gap_ms < request.promised_ms;
  const failed = isFailed(request);
  const end = before ? x(before.at_ms + (before.took_ms ?? 0)) : 0;
  const until = before ? x(before.at_ms + (before.took_ms ?? 0) + request.promised_ms) : 0;
  return [before && request.gap_ms !== undefined ? s('path', { class: 'promise', d: `M${end} 72V78H${Math.min(until, 1090)}` }) : null,
    s('path', { class: `tick ${failed ? 'failed' : ''} ${isEarly ? 'early' : ''}`, d: `M${at} 32V68` }, s('title', {}, `${clock(request.at_ms)}: ${visible(request.outcome, 60)} ${request.status ?? ''}, took ${full(request.took_ms)} ms${request.gap_ms === undefined ? '' : `, ${full(request.gap_ms)} ms after the one before (${full(request.promised_ms)} ms promised)`}`)),
    isEarly ? s('text', { x: at, y: 24, 'text-anchor': 'middle', class: 'strong' }, '▲') : null];
}

/** Whether a request did not end well. */
export const isFailed = (request) => request.outcome !== 'ok' && !['redirect', 'not-modified', 'cut-length', 'multiple-choices'].includes(request.outcome);
