// Builds elements. Everything from outside (URLs, titles, headers) becomes text or a checked attribute, never markup.
//
// Invariants: no string is ever parsed as HTML; no attribute is a script or a style; a link leads into this dashboard,
// into this node's API and archive, or, made by `outside` alone, to an http or https address with a clear mark.

/** Links that `h` accepts: parts of this page, and paths below the address of this page. */
const INSIDE = /^(#|web\/|api\/)/;
/** Attributes that are never set from `h`: they run or load something. */
const REFUSED = /^(on|style$|src|action$|formaction$|ping$|background$|xlink)/i;
/** Characters that are not seen, or that change the direction of what is seen. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f]|\p{M}{5,}/gu;
/** Longest foreign text in a table or a sentence; the rest is cut, and said to be cut. */
const TEXT_MAX = 400;
/** Longest foreign text in an attribute. */
const TITLE_MAX = 2000;
const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an element: `h('td', {class: 'n'}, 'text', element, …)`. Strings become text. Special attributes: `on` has
 * listeners (`{click: f}`), `css` has numbers for custom properties (`{'--share': 0.5}`).
 */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Makes an SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') listen(element, value);
    else if (name === 'css') for (const [key, number] of Object.entries(value)) setCss(element, key, number);
    else if (REFUSED.test(name)) throw new TypeError(`attribute ${name} is not allowed`);
    else if (name === 'href' && !INSIDE.test(value)) throw new TypeError('a link out of the dashboard: use outside()');
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== undefined && child !== null && child !== false) element.append(String(child));
  }
}

/** Only numbers can become style, so no text from outside can. */
function setCss(element, name, number) {
  if (Number.isFinite(number)) element.style.setProperty(name, String(number));
}

function listen(element, handlers) {
  element.handlers = handlers;
  for (const type of Object.keys(handlers)) {
    element.addEventListener(type, (event) => element.handlers?.[type]?.(event));
  }
}

/** Foreign text as a string for attributes and titles: hidden characters are written out. */
export function visible(text, max = TITLE_MAX) {
  const whole = String(text ?? '');
  const cut = whole.length > max ? `${whole.slice(0, max)}…` : whole;
  return cut.replace(HIDDEN, mark);
}

function mark(found) {
  const marks = [...found];
  return marks.length > 1 ? `⟨${marks.length} marks⟩` : `⟨U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** Foreign text as an element: isolated from the direction of the text around it, hidden characters visible. */
export function foreign(text, max = TEXT_MAX) {
  const whole = String(text ?? '');
  const cut = whole.length > max;
  const shown = cut ? whole.slice(0, max) : whole;
  const parts = [];
  let from = 0;
  for (const found of shown.matchAll(HIDDEN)) {
    parts.push(shown.slice(from, found.index));
    parts.push(h('span', { class: 'ctl', title: 'a character that cannot be seen' }, mark(found[0])));
    from = found.index + found[0].length;
  }
  parts.push(shown.slice(from));
  if (cut) parts.push(h('span', { class: 'cut' }, ` … (${whole.length.toLocaleString('en')} characters)`));
  return h('bdi', { class: 'foreign', title: cut ? visible(whole) : undefined }, parts);
}

/** The address of a page of the dashboard. */
export function route(page, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '') query.set(name, value);
  const text = query.toString();
  return text ? `#/${page}?${text}` : `#/${page}`;
}

/** A crawled URL: text that leads to the page that explains the URL. */
export function crawled(url, max) {
  return h('a', { class: 'crawled', href: route('url', { url }) }, foreign(url, max));
}

/** A host: text that leads to the page of the host. */
export function hostLink(origin) {
  return h('a', { class: 'crawled', href: route('host', { url: origin }) }, foreign(origin));
}

/**
 * A link to a site, with a mark. Only http and https, without a user name; anything else is text. The site does not
 * learn where the reader comes from.
 */
export function outside(url, label = 'open the live page') {
  let parsed;
  try {
    parsed = new URL(String(url));
  } catch {
    return h('span', { class: 'dim' }, 'no link: not a URL');
  }
  if (!['http:', 'https:'].includes(parsed.protocol)) return h('span', { class: 'dim' }, 'no link: neither http nor https');
  if (parsed.username || parsed.password) return h('span', { class: 'dim' }, 'no link: the URL has a user name');
  const link = h('a', { class: 'outside', rel: 'noreferrer noopener nofollow', target: '_blank', referrerpolicy: 'no-referrer' },
    label, h('span', { 'aria-hidden': 'true' }, ' ↗'), h('span', { class: 'hidden' }, ' (another site, in a new tab)'));
  link.setAttribute('href', parsed.href);
  return link;
}

/** A link to a capture in the archive of this node; none if the browser would bend the address to another place. */
export function capture(url, timestamp, label) {
  if (!/^\d{4,14}$/.test(timestamp)) return null;
  const start = `web/${timestamp}id_/`;
  const path = `${start}${String(url).replaceAll('#', '%23').replaceAll('\\', '%5C')}`;
  const here = new URL('.', document.baseURI);
  let resolved;
  try {
    resolved = new URL(path, here);
  } catch {
    return null;
  }
  if (resolved.origin !== here.origin || !resolved.pathname.startsWith(`${here.pathname}${start}http`)) return null;
  // As the browser writes it: control characters are escaped.
  return h('a', { href: resolved.href.slice(here.href.length), target: '_blank', rel: 'noopener' }, label);
}

/**
 * Changes `old` until it looks like `wanted`, keeping elements that stay: so focus, selection and scroll positions
 * survive an update. Elements with `data-keep` belong to somebody else (a chart, a field) and are left alone.
 */
export function morph(old, wanted) {
  syncAttributes(old, wanted);
  old.handlers = wanted.handlers;
  const next = [...wanted.childNodes];
  if (next.some((child) => keyOf(child))) removeOthers(old, new Set(next.map(keyOf)));
  next.forEach((child, index) => {
    let present = old.childNodes[index];
    const key = keyOf(child);
    if (key && present && keyOf(present) !== key) {
      // Rows that have moved go to their place; a new row goes before the ones that stay.
      const moved = [...old.childNodes].slice(index + 1).find((other) => keyOf(other) === key);
      old.insertBefore(moved ?? child, present);
      present = moved ?? child;
    }
    if (present === child) return;
    if (!present) old.append(child);
    else if (!isAlike(present, child)) present.replaceWith(child);
    else if (present.nodeType === Node.TEXT_NODE) present.data === child.data || (present.data = child.data);
    else if (!present.hasAttribute('data-keep')) morph(present, child);
  });
  while (old.childNodes.length > next.length) old.lastChild.remove();
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null);

/** Rows that are gone leave first, so that the rows that stay need not move and keep the focus. */
function removeOthers(old, keys) {
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (key && !keys.has(key)) child.remove();
  }
}

function isAlike(present, child) {
  if (present.nodeType !== child.nodeType || present.nodeName !== child.nodeName) return false;
  if (present.nodeType !== Node.ELEMENT_NODE) return true;
  const key = (element) => element.getAttribute('data-keep') ?? element.getAttribute('data-key');
  const types = (element) => Object.keys(element.handlers ?? {}).join();
  return key(present) === key(child) && types(present) === types(child);
}

function syncAttributes(old, wanted) {
  for (const { name } of [...old.attributes]) {
    const isUsers = name === 'open' && old.nodeName === 'DETAILS';
    if (!wanted.hasAttribute(name) && !isUsers) old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (name === 'style') continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // Through the object model: the policy of the page forbids style attributes.
  if (wanted.style && old.style.cssText !== wanted.style.cssText) old.style.cssText = wanted.style.cssText;
}

/** A part that scrolls sideways on a small screen: labelled, and in reach of the keyboard. */
export function scroller(label, ...children) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, children);
}
