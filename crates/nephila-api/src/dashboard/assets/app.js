// The shell of the dashboard: which page is open, the navigation, the live connection and its loss, the login.

import { Actions } from './actions.js';
import { get } from './api.js';
import { foreign, h, outside, route, visible } from './dom.js';
import { Live } from './live.js';
import { Page } from './page.js';
import { heading, loading } from './parts.js';
import { clock, span } from './format.js';

/** Pages of the navigation, in order: name in the address, module, words. */
const PAGES = [
  ['', 'overview', 'Overview'], ['limits', 'limits', 'Limits'], ['jobs', 'jobs', 'Jobs'], ['hosts', 'hosts', 'Hosts'],
  ['politeness', 'politeness', 'Politeness'], ['feeds', 'feeds', 'Feeds'], ['archive', 'archive', 'Archive'],
  ['cluster', 'cluster', 'Cluster'], ['log', 'log', 'Log'], ['settings', 'settings', 'Settings'],
];
/** Pages that are reached from others, and where they belong in the navigation. */
const BELOW = { job: 'jobs', host: 'hosts', url: 'url' };
/** A screen reader hears the sentence again after this time at the earliest. */
const SAY_MS = 15_000;
/** The addresses of the nodes are asked for again after this time, or when nodes come and go. */
const PEERS_MS = 60_000;

const at = (id) => document.getElementById(id);
const main = at('main');
const lost = at('lost');
const trouble = h('div', { id: 'trouble', hidden: true });
main.before(trouble);
const live = new Live();
const actions = new Actions(at('dialog'), (text) => say(text));
let open = null;
let isLogin = false;
let said = { key: '', at: 0 };
const peers = { names: '', at: 0, addresses: new Map() };

function say(text) {
  at('said').textContent = visible(text, 500);
}

/** Reads the address: `#/host?url=…` is the page `host`, `#/job/NAME` the page `job` with the path `NAME`. */
function address() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [name, ...rest] = path.split('/');
  let decoded = '';
  try {
    decoded = decodeURIComponent(rest.join('/'));
  } catch {
    decoded = rest.join('/');
  }
  return { name, path: decoded, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

async function go() {
  const { name, path, parameters } = address();
  open?.close();
  isLogin = false;
  const known = PAGES.find(([address]) => address === name)?.[1] ?? (BELOW[name] ? name : null);
  const current = BELOW[name] ?? name;
  for (const link of at('nav').querySelectorAll('a')) {
    if (link.dataset.page === current) link.setAttribute('aria-current', name === current ? 'page' : 'true');
    else link.removeAttribute('aria-current');
  }
  closeMenu();
  if (name !== 'url') at('find-url').value = '';
  const words = PAGES.find(([address]) => address === current)?.[2] ?? (known ? 'Explain' : 'Not found');
  document.title = `${words} · Nephila`;
  main.replaceChildren(...loading(words));
  main.setAttribute('aria-busy', 'true');
  const page = new Page({ main, trouble, live, actions, path, parameters });
  open = page;
  if (!known) {
    page.show(heading('There is no such page.'), h('p', { class: 'w12' }, h('a', { href: '#/' }, 'Go to the overview')));
    return;
  }
  try {
    const module = await import(`./${known}.js`);
    if (page.closed.aborted) return;
    document.title = `${visible(module.title?.(page) ?? words, 80)} · Nephila`;
    live.want(module.topics ?? ['status']);
    module.open(page);
  } catch (error) {
    console.error(error);
    page.show(heading('This page cannot be loaded.'), h('p', { class: 'note bad w12' }, visible(error.message), ' Is the node running?'));
  }
}

/** After a step of the reader, not after the first load: the focus goes where the new page begins. */
function navigated() {
  go().then(() => {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  });
}

function showConnection() {
  const { state, status } = live;
  const words = { live: ['good', '● live'], polling: ['warn', '◔ asked each second'], connecting: ['dim', '○ connecting'], lost: ['bad', '▲ connection lost'] };
  const isSignedOut = live.problem?.status === 401;
  const [kind, text] = isSignedOut ? ['dim', '○ not signed in'] : status?.mode === 'archive' && state === 'live' ? ['dim', '○ archive'] : words[state];
  const where = status ? `${status.mode === 'cluster' ? `node ${status.name} · ${status.nodes?.length ?? '?'} nodes` : status.name}` : '';
  at('connection').replaceChildren(h('span', { class: 'where' }, where ? [foreign(where, 60), ' · '] : ''), h('span', { class: `state ${kind}`, title: state === 'polling' ? 'No events come, so the page asks for the numbers.' : undefined }, text));
  const isLost = state === 'lost' && !isSignedOut;
  document.body.classList.toggle('stale', isLost);
  if (!isLost) {
    lost.hidden = true;
    lost.replaceChildren();
    return;
  }
  if (lost.hidden) {
    lost.replaceChildren(h('b', {}, `▲ ${live.problem?.isLost === false ? 'No new numbers' : 'Connection lost'} since ${clock(live.lostAt)} UTC. `),
      h('span', {}, foreign(sentence(live.problem?.title)), foreign(live.problem?.detail ?? ''), ' The page tries again by itself. '),
      h('span', { class: 'age', 'aria-live': 'off' }), otherNodes());
    lost.hidden = false;
  }
  lost.querySelector('.age').textContent = live.lastAt ? `The last numbers are ${span(Math.round(live.age()))} old.` : 'No numbers have come yet.';
}

/** The title of a problem as a sentence. */
const sentence = (title = '') => (title ? `${title[0].toUpperCase()}${title.slice(1)}. ` : '');

/** The other nodes of a cluster answer the same questions: the way to this page there, when this node is gone. */
function otherNodes() {
  const names = (live.status?.nodes ?? []).filter((node) => !node.error).map((node) => node.name).filter((name) => name !== live.status.name);
  const way = (name) => {
    const address = peers.addresses.get(name);
    return address ? [foreign(name, 60), ': ', outside(`${address}/${location.hash}`, visible(address, 80))] : foreign(name, 60);
  };
  return names.length ? h('p', { class: 'others' }, 'The other nodes show the same page: ', names.map((name, index) => [index ? ', ' : '', way(name)]), '.') : null;
}

/** Asks where the nodes answer while this node can still say so. */
async function learnPeers(status) {
  const names = (status.nodes ?? []).map((node) => node.name).join();
  if (status.mode !== 'cluster' || (names === peers.names && Date.now() - peers.at < PEERS_MS)) return;
  Object.assign(peers, { names, at: Date.now() });
  try {
    const { nodes = [] } = await get('cluster');
    peers.addresses = new Map(nodes.filter((node) => node.address).map((node) => [node.name, node.address.includes('://') ? node.address : `http://${node.address}`]));
  } catch {
    // Names alone help too; the next status asks again.
    peers.names = '';
  }
}

function takeStatus(status) {
  const shown = `${status.version} ${status.mode}`;
  // Written once: a link that is made anew each second cannot keep the focus.
  if (at('about').dataset.shown !== shown) at('about').replaceChildren('Nephila ', foreign(status.version ?? '', 40), ' · ', status.mode === 'cluster' ? 'a node of a cluster' : status.mode === 'archive' ? 'a finished archive' : 'one machine',
    ' · ', h('a', { href: 'api/v1/openapi.json' }, 'description of the API'));
  at('about').dataset.shown = visible(shown, 60);
  const key = `${status.state} ${status.limited_by?.reason} ${(status.alarms ?? []).map((alarm) => alarm.name)}`;
  if (key !== said.key && Date.now() - said.at > SAY_MS) {
    said = { key, at: Date.now() };
    say(status.sentence ?? '');
  }
  for (const link of at('nav').querySelectorAll('[data-page=cluster]')) link.hidden = status.mode !== 'cluster' && address().name !== 'cluster';
}

function showLogin() {
  if (isLogin) return;
  isLogin = true;
  open?.close();
  open = null;
  document.title = 'Sign in · Nephila';
  trouble.hidden = true;
  main.replaceChildren(heading('Sign in'), actions.loginForm(() => {
    live.restart();
    go();
  }));
  main.removeAttribute('aria-busy');
}

function closeMenu() {
  document.querySelector('header').classList.remove('opened');
  document.querySelector('.menu').setAttribute('aria-expanded', 'false');
}

function start() {
  at('nav').replaceChildren(...PAGES.map(([name, , words]) => h('a', { href: route(name), 'data-page': name }, words)));
  document.querySelector('.menu').addEventListener('click', (event) => {
    const isOpen = document.querySelector('header').classList.toggle('opened');
    event.currentTarget.setAttribute('aria-expanded', String(isOpen));
  });
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  at('find').addEventListener('submit', (event) => {
    event.preventDefault();
    const url = at('find-url').value.trim();
    if (url) location.hash = route('url', { url: /^[a-z][a-z0-9+.-]*:/i.test(url) ? url : `https://${url}` });
  });
  live.addEventListener('state', showConnection);
  live.addEventListener('tick', showConnection);
  live.addEventListener('status', (event) => {
    takeStatus(event.detail);
    showConnection();
    learnPeers(event.detail);
  });
  live.addEventListener('unauthorised', showLogin);
  addEventListener('hashchange', navigated);
  actions.refresh();
  go();
}

start();
