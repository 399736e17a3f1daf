// What the judge asks of an open page. Each function returns complaints: sentences, none if all is well.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { ATTACKS } from './attacks.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** A page may have this many elements, whatever the crawl has. */
const ELEMENTS_MAX = 12_000;
/** Steps of the keyboard walk. */
const STEPS_MAX = 700;
const WALKS_MAX = 3;
const POLICY = ["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"];
/** Characters that must not stand in the text of a page as they are. */
const HIDDEN = '[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\u{e0000}-\\u{e007f}]';

/** The policy of the page, as it was sent. */
export function policy(headers) {
  const said = (headers['content-security-policy'] ?? '').split(';').map((part) => part.trim()).filter(Boolean);
  const missing = POLICY.filter((part) => !said.includes(part));
  const more = said.filter((part) => !POLICY.includes(part));
  return [...missing.map((part) => `the policy lacks ${part}`), ...more.map((part) => `the policy has ${part} too`)];
}

/** axe-core finds nothing. */
export async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map((violation) => `axe ${violation.id}: ${violation.help}, ${violation.nodes.length} times, as in ${String(violation.nodes[0].target).slice(0, 120)} ${violation.nodes[0].failureSummary?.split('\n')[1]?.trim().slice(0, 160) ?? ''}`);
}

/** Nothing that an attack made: no script ran, no element, no attribute, no link that leads where it must not. */
export function unharmed(page) {
  return page.evaluate(([hidden]) => {
    const found = [];
    const here = new URL('.', document.baseURI);
    if (globalThis.__ran) found.push('a script of an attack ran');
    for (const element of document.querySelectorAll('.made, x-made')) found.push(`an attack made <${element.localName}>`);
    for (const element of document.querySelectorAll('iframe, frame, object, embed, base, applet, body script, body style, body link, body meta, img, video, audio, math, template, portal')) found.push(`there is a <${element.localName}>`);
    for (const element of document.querySelectorAll('*')) {
      for (const { name, value } of element.attributes) {
        if (/^on/i.test(name)) found.push(`<${element.localName}> has ${name}`);
        if (/^(srcdoc|formaction|action|background|ping)$/i.test(name)) found.push(`<${element.localName}> has ${name}`);
        if (name === 'style' && /url|expression|@import/i.test(value)) found.push(`<${element.localName}> has the style ${value.slice(0, 60)}`);
        if (new RegExp(hidden, 'u').test(value) && name !== 'value') found.push(`<${element.localName}> ${name} has a hidden character as it is`);
      }
    }
    for (const link of document.querySelectorAll('a[href], area[href]')) {
      const to = new URL(link.href, here);
      const rel = (link.getAttribute('rel') ?? '').split(' ');
      const isOurs = to.origin === here.origin && ([here.pathname, location.pathname].includes(to.pathname) || ['web/', 'api/'].some((part) => to.pathname.startsWith(here.pathname + part)));
      if (isOurs) continue;
      if (!['http:', 'https:'].includes(to.protocol)) found.push(`a link leads to ${to.protocol}`);
      else if (!rel.includes('noreferrer') || !rel.includes('noopener')) found.push(`a link leads to ${to.host} without rel=noreferrer noopener`);
      else if (!link.textContent.includes('↗')) found.push(`a link leads to ${to.host} without a mark`);
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (new RegExp(hidden, 'u').test(walker.currentNode.data)) found.push(`a hidden character stands in the text as it is: ${JSON.stringify(walker.currentNode.data.slice(0, 60))}`);
    return [...new Set(found)].slice(0, 12);
  }, [HIDDEN]);
}

/** An attack as the dashboard must write it. Written anew here, so that a fault there is not repeated. */
export function written(text) {
  const isHidden = (code, mark) => code < 0x20 || (code >= 0x7f && code < 0xa0) || /[\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u.test(mark);
  let out = '';
  for (const mark of text) {
    const code = mark.codePointAt(0);
    out += isHidden(code, mark) ? `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩` : mark;
  }
  return out.replace(/\p{M}{5,}/gu, (run) => `⟨${[...run].length} marks⟩`);
}

const beginning = (text) => written(text).slice(0, 40);

/** Which attacks came in answers of the API, and which of them stand in the page as text. */
export async function attacks(page, answers) {
  const text = await page.evaluate(() => document.body.textContent);
  const all = answers.join('\n');
  const came = ATTACKS.filter((attack) => all.includes(JSON.stringify(attack.text).slice(1, -1).slice(0, 200)));
  const seen = came.filter((attack) => text.includes(beginning(attack.text)));
  return { came: came.map(({ name }) => name), seen: seen.map(({ name }) => name) };
}

/** A page shows an attack that stands in its own address as text. */
export async function reflected(page, attack) {
  const text = await page.evaluate(() => document.body.textContent);
  return text.includes(beginning(attack.text)) ? [] : [`${attack.name} in the address is not shown as text`];
}

/** Few elements, and nothing wider than the screen. */
export function bounded(page) {
  return page.evaluate((most) => {
    const count = document.querySelectorAll('*').length;
    const wide = document.documentElement.scrollWidth - innerWidth;
    return [count > most && `the page has ${count} elements, at most ${most}`, wide > 0 && `the page is ${wide} pixels wider than the screen`].filter(Boolean);
  }, ELEMENTS_MAX);
}

/** The value in `answer` at `path`: fields by their names, rows of a list by their `name`. */
function at(answer, path) {
  let value = answer;
  for (let rest = path.split('.'); rest.length && value !== undefined && value !== null;) {
    const [name] = rest.splice(0, 1);
    if (Array.isArray(value) && name !== 'length') value = value.find((row) => row.name === name);
    else value = value[name];
  }
  return value;
}

/** Where the numbers of a page come from. */
function source(of, path) {
  const [kind, rest] = [of.slice(0, of.indexOf(':')), of.slice(of.indexOf(':') + 1)];
  const split = rest.lastIndexOf('.');
  const url = encodeURIComponent(new URLSearchParams(path.split('?')[1]).get('url') ?? '');
  switch (kind) {
    case 'status': return ['status', rest];
    case 'archive': return ['archive', rest];
    case 'politeness': return ['politeness', rest];
    case 'cluster': return ['cluster', rest];
    case 'host': return [`host?url=${url}`, rest];
    case 'job': return [`jobs/${path.split('/')[2]}`, rest];
    case 'jobs': return ['jobs', `${rest.slice(0, split)}.progress.${rest.slice(split + 1)}`];
    case 'node': return ['cluster/nodes', rest];
    default: return null;
  }
}

/** Each number of the page is a number of the API: between the answer before and the answer after. */
export async function numbers(page, path, ask, tries = 6) {
  let found = [];
  for (let round = 0; round < tries; round += 1) {
    const marks = await page.$$eval('data[data-of]', (all) => [...new Set(all.map((one) => one.dataset.of))]);
    const places = marks.map((of) => [of, source(of, path)]);
    const wanted = [...new Set(places.filter(([, place]) => place).map(([, [operation]]) => operation))];
    const read = async () => new Map(await Promise.all(wanted.map(async (operation) => [operation, await ask(operation)])));
    const before = await read();
    // Pages ask for some answers each five seconds: a number may be that old.
    await page.waitForTimeout(round * 900);
    const shown = await page.$$eval('data[data-of]', (all) => all.map((one) => ({ of: one.dataset.of, value: Number(one.value), text: one.textContent, title: one.title })));
    const after = await read();
    found = [];
    for (const { of, value, text, title } of shown) {
      const [operation, field] = source(of, path) ?? [];
      if (!operation) {
        found.push(`${of} is a number from nowhere`);
        continue;
      }
      const ends = [at(before.get(operation), field), at(after.get(operation), field)].filter((end) => typeof end === 'number');
      const [low, high] = [Math.min(...ends), Math.max(...ends)];
      const slack = round >= 3 && of.includes('rates.') ? (high - low) * 2 + 1 : 0;
      if (!ends.length || value < low - slack || value > high + slack) found.push(`${of} is shown as ${value}, the API says ${ends.join(' to ')}`);
      found.push(...reads(of, value, text, title));
    }
    if (!found.length) return { count: shown.length, found };
  }
  return { count: 0, found: found.slice(0, 8) };
}

const UNITS = { T: 1e12, G: 1e9, M: 1e6, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15 };

/** The text of a number means the number, and its title has all digits. */
function reads(of, value, text, title) {
  const found = [];
  const digits = Number(title.replace(/[^\d.-]/g, ''));
  if (!title.startsWith('-') && Math.abs(digits - value) > 0.001) found.push(`${of}: the title says ${title}, the value is ${value}`);
  const [, number, unit = ''] = /^([\d,.]+)(?: ([TGMKP]?B?))?$/.exec(text.trim()) ?? [];
  if (number === undefined || (unit && !UNITS[unit])) return found;
  const meant = Number(number.replaceAll(',', '')) * (UNITS[unit] ?? 1);
  if (Math.abs(meant - value) > Math.max(0.51 * (number.includes('.') ? 0.1 : 1) * (UNITS[unit] ?? 1), 1e-9)) found.push(`${of}: ${text} is not ${value}`);
  return found;
}

/** The rows of the table of hosts are the rows of the API. */
export async function hostRows(page, ask) {
  for (let round = 0; round < 4; round += 1) {
    const { hosts } = await ask('hosts?sort=queued&limit=50');
    const rows = await page.$$eval('main table tbody tr', (all) => all.map((row) => [row.querySelector('th bdi')?.textContent, ...[...row.querySelectorAll('td:not(:last-child) > data')].slice(0, 3).map((one) => Number(one.value))]));
    const wrong = hosts.slice(0, 20).map((host, index) => [JSON.stringify([beginning(host.origin), host.queued, host.done, host.errors]), JSON.stringify([rows[index]?.[0]?.slice(0, beginning(host.origin).length), ...(rows[index] ?? []).slice(1)])]).find(([asked, shown]) => asked !== shown);
    if (!wrong) return [];
    if (round === 3) return [`row of a host: the API has ${wrong[0]}, the page ${wrong[1]}`];
    await page.waitForTimeout(1000);
  }
  return [];
}

/**
 * Everything that can be used is reached by Tab, in sight, and the focus is seen. Rows of a live table change places while we
 * walk: one may come to stand behind us, or be pushed out of sight. What is wrong is wrong in every walk.
 */
export async function keyboard(page, least = 10) {
  for (let walks = 1; ; walks += 1) {
    const found = await walk(page, least);
    if (found.length === 0 || walks === WALKS_MAX) return found;
  }
}

async function walk(page, least) {
  const found = [];
  await page.evaluate(() => {
    document.activeElement?.blur();
    scrollTo(0, 0);
    const all = [...document.querySelectorAll('a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary')];
    globalThis.__walked = new WeakSet();
    // A live page gets new rows while we walk: what was there at the beginning counts.
    globalThis.__wanted = all.filter((element) => element.checkVisibility({ checkVisibilityCSS: true }) && !element.closest('dialog'));
  });
  const seen = new Map();
  for (let step = 0; step < STEPS_MAX; step += 1) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      globalThis.__walked.add(element);
      const look = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      return { name: `${element.localName}.${element.className} ${(element.textContent || element.getAttribute('aria-label') || element.name || '').slice(0, 30)}`, isSkip: element.classList.contains('skip'), isSeen: look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 2, isInside: box.bottom > 0 && box.top < innerHeight && box.width > 0 };
    });
    if (!now) break;
    if (step === 0 && !now.isSkip) found.push('the first stop of Tab is not the skip link');
    if (!now.isSeen) found.push(`the focus on ${now.name} is not seen`);
    if (!now.isInside) found.push(`${now.name} has the focus out of sight`);
    seen.set(now.name, true);
  }
  const missed = await page.evaluate(() => globalThis.__wanted.filter((element) => element.isConnected && !globalThis.__walked.has(element)).map((element) => `${element.localName} ${element.textContent.slice(0, 30)}`));
  if (missed.length) found.push(`Tab does not reach ${missed.length}, as ${missed[0]}`);
  if (seen.size < least) found.push(`Tab has only ${seen.size} stops`);
  return [...new Set(found)].slice(0, 6);
}

/** What a page must have for people who do not see it. */
export function structure(page) {
  return page.evaluate(() => [
    document.querySelectorAll('h1').length !== 1 && `there are ${document.querySelectorAll('h1').length} headings of the first level`,
    !document.querySelector('[aria-live=polite]') && 'nothing is said to screen readers',
    [...document.querySelectorAll('table')].some((table) => !table.caption?.textContent) && 'a table has no caption',
    [...document.querySelectorAll('svg[role=img], [role=img]')].some((picture) => !picture.getAttribute('aria-label')) && 'a picture has no words',
    [...document.querySelectorAll('figure')].some((figure) => !figure.querySelector('.words')?.textContent || !figure.querySelector('details')) && 'a chart has no words or no table',
    document.documentElement.lang !== 'en' && 'the page names no language',
  ].filter(Boolean));
}
