// Does the judge see what is wrong? The dashboard as it is must get no complaint, and each planted fault must get one.
//
//     npm ci && node selftest.mjs [--only NAME] [--out DIR] [--load-ms 1000] [--whole]
//
// Without `--whole` the dashboard is judged once on one machine; with it, also as a node of a cluster that loses another
// node, as a finished folder, and with a token.

import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { judge } from './dashboard.mjs';
import { start } from './fixture.mjs';

const option = (name) => (process.argv.includes(`--${name}`) ? process.argv[process.argv.indexOf(`--${name}`) + 1] : undefined);
const inFile = (file, from, to) => (name, text) => {
  if (name !== file) return text;
  if (!text.includes(from)) throw new Error(`${file} has no ${from}: plant the fault anew`);
  return text.replaceAll(from, to);
};

/** A fault, where the judge looks, and a word of the complaint that it must make. */
const FAULTS = {
  'markup is parsed': { plant: inFile('dom.js', "element.append(String(child))", "element.insertAdjacentHTML('beforeend', String(child))"), only: ['log'], word: /an attack made|goes elsewhere|another origin/ },
  'markup is parsed, and scripts may run': { plant: inFile('dom.js', 'element.append(String(child))', "element.append(document.createRange().createContextualFragment(String(child)))"), csp: false, only: ['jobs', 'overview', 'log'], word: /a script of an attack ran|goes elsewhere/ },
  'a crawled URL is a link': { plant: inFile('dom.js', "return h('a', { class: 'crawled', href: route('url', { url }) }, foreign(url, max));", "const a = h('a', { class: 'crawled' }, foreign(url, max)); a.setAttribute('href', url); return a;"), only: ['log'], word: 'a link leads to' },
  'a link outside has no rel': { plant: inFile('dom.js', "rel: 'noreferrer noopener nofollow', ", ''), only: ['host'], word: 'without rel' },
  'hidden characters stay': { plant: inFile('dom.js', 'const HIDDEN = ', 'const HIDDEN = /\\uE000\\uE001/gu; const _ = '), only: ['log'], word: 'hidden character' },
  'a title is not shown': { plant: inFile('log.js', "line.title ? h('div', { class: 'dim' }, foreign(line.title, 160)) : null, ", ''), world: (world) => world.lines.forEach((line) => (line.url = 'https://news.example/')), only: ['log'], word: 'nowhere shown' },
  'no policy': { csp: false, only: ['limits'], word: 'the policy lacks' },
  'a picture from elsewhere': { plant: inFile('index.html', '<main ', '<img alt="" src="http://127.0.0.1:1/x.png"><main '), csp: false, only: ['limits'], word: 'another origin' },
  'a fault in a page': { plant: inFile('limits.js', 'export function open(page) {', 'export function open(page) { setTimeout(() => { throw new Error("planted"); }, 10);'), only: ['limits'], word: 'the page has a fault' },
  'an error in the console': { plant: inFile('limits.js', 'export function open(page) {', 'export function open(page) { console.error("planted");'), only: ['limits'], word: 'error in the console' },
  'slow answers': { delayMs: Math.max(1000, Number(option('load-ms') ?? 1000)) / 2, only: ['limits'], word: 'data after' },
  'pale words': { plant: inFile('style.css', '--dim: #5c6670', '--dim: #b9bfc5'), only: ['limits'], word: 'axe color-contrast' },
  'a field without a name': { plant: inFile('hosts.js', "h('label', { for: 'match' }, 'Name contains'), ", ''), only: ['hosts'], word: 'axe label' },
  'a number too high': { plant: inFile('format.js', 'h(\'data\', { value: String(value)', 'h(\'data\', { value: String(value + 1)'), only: ['limits'], word: 'the title says' },
  'numbers of another field': { plant: inFile('limits.js', "num(frontier.later, 'status:frontier.later')", "num(frontier.parked, 'status:frontier.later')"), only: ['limits'], word: 'the API says' },
  'rows in another order': { plant: inFile('hosts.js', 'answer.hosts.slice(0, LIMIT)', 'answer.hosts.slice(0, LIMIT).reverse()'), only: ['hosts'], word: 'row of a host' },
  'a page that stands still': { plant: inFile('live.js', "this.dispatchEvent(new CustomEvent(type, { detail: value }));", "if (!this.sent) this.dispatchEvent(new CustomEvent(type, { detail: value })); this.sent = true;"), only: ['follow'], word: 'the page' },
  'a list without an end': { plant: (name, text) => (name === 'table.js' ? text.replaceAll('rows.slice(0, ROWS_MAX)', 'rows') : name === 'hosts.js' ? text.replaceAll('const LIMIT = 50', 'const LIMIT = 700') : text), only: ['hosts'], word: 'elements, at most' },
  'wider than the screen': { plant: inFile('style.css', '.scroll { overflow-x: auto;', '.scroll { min-width: 1500px;'), only: ['limits'], word: 'wider than the screen' },
  'no sign of the focus': { plant: inFile('style.css', ':focus-visible { outline: 3px', '*:focus { outline: none !important } :focus-visible { outline: 3px'), only: ['limits'], word: 'is not seen' },
  'links that Tab passes by': { plant: inFile('app.js', "h('a', { href: route(name), 'data-page': name }, words)", "h('a', { href: route(name), 'data-page': name, tabindex: '-1' }, words)"), only: ['limits'], word: 'Tab does not reach' },
  'a dialog without the focus': { plant: inFile('actions.js', 'dialog.showModal();', "dialog.setAttribute('open', '');"), only: ['keys'], word: 'dialog' },
  'a header that does not sort': { plant: inFile('table.js', "on: { click: () => onSort(column.key) }", 'on: {}'), only: ['keys'], word: 'does not sort' },
  'two headings': { plant: inFile('index.html', '<a class="brand" href="#/">nephila</a>', '<h1>nephila</h1>'), only: ['limits'], word: 'headings' },
};

/** On a machine that is busy with other work, pages are slower than they are. */
const loadMs = Number(option('load-ms') ?? 1000);
const isWhole = process.argv.includes('--whole');
const only = option('only');
const out = option('out') ?? path.join(fileURLToPath(new URL('.', import.meta.url)), 'screens');
let failures = 0;

function tell(name, isGood, detail) {
  console.log(`${isGood ? 'ok  ' : 'FAIL'} ${name}${detail ? `: ${detail}` : ''}`);
  failures += isGood ? 0 : 1;
}

async function clean(name, options, more = {}) {
  const node = await start(options);
  const complaints = await judge({ url: node.url, given: { url: 'https://news.example/search?q=x', host: 'https://news.example' }, token: options.token, loadMs, isStrict: true, out: path.join(out, options.mode ?? 'single'), ...more(node) });
  await node.close().catch(() => {});
  tell(name, !complaints.length, complaints.slice(0, 10).join('\n       '));
}

if (!only || only === 'clean') {
  await clean('one machine gets no complaint', { mode: 'single' }, () => ({ mayChange: true }));
  if (isWhole) {
    await clean('a finished folder gets no complaint', { mode: 'archive' }, () => ({}));
    await clean('a node with a token gets no complaint', { mode: 'single', token: 'secret' }, () => ({ isQuick: true }));
    let second = await start({ mode: 'cluster', name: 'n3' });
    await clean('a cluster that loses a node gets no complaint', { mode: 'cluster' }, (node) => {
      const { host, port } = { host: new URL(node.url).host, port: Number(new URL(second.url).port) };
      second.world.addresses = { n1: host, n2: host };
      const kill = async () => {
        await second.close();
        node.world.kill('n3');
        setTimeout(() => node.world.takeOver(), 4000);
      };
      return { second: second.url, kill, revive: async () => (second = await start({ mode: 'cluster', name: 'n3', port })) };
    });
  }
}
for (const [name, { only: pages, word, world, ...options }] of Object.entries(FAULTS)) {
  if (only && only !== 'faults' && !name.startsWith(only)) continue;
  const node = await start({ hosts: 3000, ...options });
  world?.(node.world);
  const complaints = await judge({ url: node.url, given: { url: 'https://news.example/search?q=x', host: 'https://news.example' }, only: pages, isQuick: true, isQuiet: true, isStrict: true, loadMs: Math.max(loadMs, 1000) });
  await node.close();
  const found = complaints.find((complaint) => (word instanceof RegExp ? word.test(complaint) : complaint.includes(word)));
  tell(`planted: ${name}`, Boolean(found), found ? found.slice(0, 110) : `not seen; complaints: ${complaints.slice(0, 3).join(' | ') || 'none'}`);
}
console.log(failures ? `${failures} failures` : 'the judge sees all');
process.exit(failures ? 1 : 0);
