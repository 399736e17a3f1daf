// Numbers, sizes and times as people read them. The full value is always in the title.

import { h } from './dom.js';

const NONE = '–';
const SHORT_FROM = 1_000_000;
const POWERS = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M']];
const SIZES = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

/** All digits: `48,213,556`. */
export function full(value, digits = 3) {
  return isNumber(value) ? value.toLocaleString('en', { maximumFractionDigits: digits }) : NONE;
}

/** At most seven digits: `48.2 M`. */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const [unit, name] = POWERS.find(([power]) => Math.abs(value) >= power) ?? [];
  if (unit && Math.abs(value) >= SHORT_FROM) return `${(value / unit).toFixed(1)} ${name}`;
  if (Number.isInteger(value)) return full(value);
  return value >= 100 ? full(value, 0) : full(value, value >= 10 ? 1 : 2);
}

/** `3.4 GB`, decimal. */
export function size(value) {
  if (!isNumber(value)) return NONE;
  let [rest, unit] = [value, 0];
  while (Math.abs(rest) >= 999.5 && unit < SIZES.length - 1) [rest, unit] = [rest / 1000, unit + 1];
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${SIZES[unit]}`;
}

/** `0.3 s`, `45 s`, `12 min`, `7.8 h`, `9 days`. */
export function span(seconds) {
  if (!isNumber(seconds)) return NONE;
  if (seconds < 0.1 && seconds > 0) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${full(seconds, 1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${full(seconds / 3600, 1)} h`;
  if (seconds < 86_400 * 1000) return `${Math.round(seconds / 86_400)} days`;
  return `${full(seconds / 31_557_600, 0)} years`;
}

/** Within this time before or after now, a time needs no date. */
const NEAR_MS = 12 * 3_600_000;

/** `14:03:22` within twelve hours, `14 Nov 14:03` otherwise; UTC. */
export function clock(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return NONE;
  const iso = at.toISOString();
  if (Math.abs(Date.now() - at.getTime()) < NEAR_MS) return iso.slice(11, 19);
  const year = at.getUTCFullYear() === new Date().getUTCFullYear() ? '' : ` ${at.getUTCFullYear()}`;
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}${year} ${iso.slice(11, 16)}`;
}

/** `20261115103000` as RFC 3339. */
export function digitsTime(digits) {
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00'] =
    /^(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?/.exec(digits) ?? [];
  return year ? `${year}-${month}-${day}T${hour}:${minute}:${second}Z` : '';
}

const element = (value, text, title, of) =>
  isNumber(value)
    ? h('data', { value: String(value), title, 'data-of': of }, text)
    : h('span', { class: 'none', title: 'not known' }, NONE, h('span', { class: 'hidden' }, ' not known'));

/** A number as an element. `of` names the field of the API, for tests: `status:frontier.queued`. */
export const num = (value, of) => element(value, short(value), full(value), of);
/** A size as an element. */
export const bytes = (value, of) => element(value, size(value), `${full(value)} bytes`, of);
/** A duration in seconds as an element. */
export const lasting = (value, of) => element(value, span(value), `${full(value)} seconds`, of);
/** A share from 0 to 1 as an element. */
export const percent = (value, of) => element(value, `${full(value * 100, value < 0.1 ? 1 : 0)} %`, `${full(value * 100)} %`, of);

/** A time as an element. */
export function time(text, none = NONE) {
  if (!text) return h('span', { class: 'none' }, none);
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return h('span', {}, String(text).slice(0, 40));
  return h('time', { datetime: at.toISOString(), title: at.toISOString() }, clock(text));
}

/** How long ago, as an element. */
export function ago(text, none = NONE) {
  const at = new Date(text ?? NaN);
  if (Number.isNaN(at.getTime())) return h('span', { class: 'none' }, none);
  const seconds = (Date.now() - at.getTime()) / 1000;
  const words = seconds < 0 ? `in ${span(-seconds)}` : `${span(Math.round(seconds))} ago`;
  return h('time', { datetime: at.toISOString(), title: at.toISOString() }, words);
}

/** `1 host`, `2 hosts`. */
export const count = (value, one, many = `${one}s`) => `${short(value)} ${value === 1 ? one : many}`;
