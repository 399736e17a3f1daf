// Opens every page of the dashboard of a running node in Chromium, and judges it.
//
//     npm ci && node dashboard.mjs URL [--second URL] [--token TOKEN] [--out DIR] [--kill COMMAND] [--revive COMMAND]
//                                      [--may-change] [--only PAGE,PAGE] [--chromium PATH] [--load-ms 1000] [--quick]
//                                      [--strict] [--want-attacks N] [--hostile HOST,HOST] [--assets DIR] [--screens DIR]
//
// On every page, in light and dark, 1280 and 390 pixels wide:
// - it is painted and has its data within a second; no error in the console; no request to another origin; the policy is whole
// - axe-core finds nothing; one heading, captions, words for each picture; it is not wider than the screen
// - its numbers are the numbers of the API
// - hostile strings (attacks.mjs) that come from the API, or stand in the address of the page, are text: no script runs, no
//   dialog opens, no element is made, no link leads where it must not, no hidden character stands in the text
// - Tab reaches everything in sight, and the focus is seen
// The public pages of a host and of a job are among them, opened by links without a token.
// Then: the overview follows the API within three seconds; with `--may-change` the politeness page follows a new stop (which
// is removed again); with `--second` and `--kill` the page of the killed node says that the connection is lost, keeps its
// numbers and leads to another node, whose page opens; the first node shows the loss within three seconds; and with `--revive`
// the page of the killed node goes on by itself when the node is back.
//
// With `--strict` each hostile string that comes from the API must be seen on some page, not only do no harm;
// `--want-attacks N` wants at least N of them; `--hostile` names the sites whose titles they are, whose logs are looked at.
// With `--assets DIR` the files of the dashboard are read from there instead of from the node: a change is seen without a build.
// Screenshots go to `--out`, a small set of smaller ones for the documents to `--screens`. Prints a line per page, and every complaint; exits with 1 if there is one.

import { exec } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { ATTACKS } from './attacks.mjs';
import * as checks from './checks.mjs';
import { photograph } from './picture.mjs';

/** A page is painted, and has its data, within this time. */
const LOAD_MS = 1000;
const OPENS_MAX = 3;
/** A change in the API is seen within this time. */
const FOLLOW_MS = 3000;
/** A node that was started again answers within this time; then its page has this long to go on. */
const REVIVE_MS = 90_000;
const GO_ON_MS = 5000;
/** The pages of hostile sites are fetched within this time, with a second between two requests to a site. */
const HOSTILE_MS = 90_000;
const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8' };
const QUIET = ['--no-sandbox', '--headless', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run', '--disable-domain-reliability', '--no-pings'];
/** Looks of the documents, besides each page in the first look. */
const SCREENS = ['overview dark 1280', 'hosts dark 1280', 'cluster dark 1280', 'overview light 390', 'cluster light 390', 'hosts dark 390'];
const LOOKS = [['light', 1280], ['dark', 1280], ['light', 390], ['dark', 390]];

/** The pages. Names of a host, a URL, a feed and a job come from the node. */
const PAGES = {
  overview: () => '#/', limits: () => '#/limits', jobs: () => '#/jobs', job: ({ job }) => job && `#/job/${encodeURIComponent(job)}`,
  hosts: () => '#/hosts', host: ({ host }) => host && `#/host?url=${encodeURIComponent(host)}`, url: ({ url }) => url && `#/url?url=${encodeURIComponent(url)}`,
  politeness: () => '#/politeness', feeds: () => '#/feeds', feed: ({ feed }) => feed && `#/feeds?url=${encodeURIComponent(feed)}`,
  archive: ({ host }) => `#/archive${host ? `?url=${encodeURIComponent(host)}&match=host` : ''}`, cluster: () => '#/cluster', log: () => '#/log', settings: () => '#/settings',
  'public-host': ({ publicHost }) => publicHost, 'public-job': ({ publicJob }) => publicJob,
};
/** Stops of the Tab key that a page has at least: a public page has few. */
const STOPS_MIN = { 'public-host': 4, 'public-job': 2 };
/** Pages that have something without a crawl. */
const ARCHIVE_PAGES = ['overview', 'url', 'archive', 'settings'];
/** Operations that a node without a cluster may not have; the page says so. */
const OPTIONAL = /\/api\/v1\/(stops|stories|spiders|feeds|history)(\?|$)/;
const INDEX = /\/web\/cdx(\?|$)/;
/** Addresses with a foreign string in them. */
const REFLECTING = [(text) => `#/url?url=${encodeURIComponent(text)}`, (text) => `#/host?url=${encodeURIComponent(text)}`, (text) => `#/job/${encodeURIComponent(text)}`];

/** Records when the page has its data: no sign of loading, and not busy. */
function watch() {
  const look = () => {
    const main = document.querySelector('main');
    const isReady = main && !main.hasAttribute('aria-busy') && !document.querySelector('main > .loading') && document.querySelector('main h1');
    if (isReady && !globalThis.__ready) globalThis.__ready = performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true, attributes: true });
}

class Judge {
  complaints = [];
  shown = new Map();

  constructor(options) {
    Object.assign(this, { loadMs: LOAD_MS }, options);
    this.origin = new URL(this.url).origin;
  }

  complain(where, found) {
    for (const text of found) {
      this.complaints.push(`${where}: ${text}`);
      this.say(`  ✖ ${where}: ${text}`);
    }
  }

  say(text) {
    if (!this.isQuiet) console.log(text);
  }

  /** Asks the API from outside of the page. */
  ask = async (operation, method = 'GET', body) => {
    const headers = { ...(this.token ? { authorization: `Bearer ${this.token}` } : {}), 'content-type': 'application/json' };
    const answer = await fetch(new URL(`api/v1/${operation}`, this.url), { method, headers, body: body && JSON.stringify(body) });
    return answer.ok ? answer.json().catch(() => null) : null;
  };

  /** What this node knows, to open the pages of single things. */
  async learn() {
    const [status, hosts, jobs, feeds, log] = await Promise.all(['status', 'hosts?sort=done&limit=1', 'jobs', 'feeds', 'log?limit=1'].map((operation) => this.ask(operation)));
    if (!status) throw new Error(`${this.url} has no status; is the token right?`);
    this.mode = status.mode;
    const host = hosts?.hosts?.[0]?.origin;
    this.names = { host, url: log?.lines?.[0]?.url ?? (host ? `${host}/` : 'https://example.org/'), job: jobs?.[0]?.name, feed: feeds?.feeds?.[0]?.url };
    Object.assign(this.names, this.given);
    if (this.mode === 'archive') return;
    const link = async (kind, name) => name && (await this.ask('links', 'POST', { kind, name }))?.path;
    Object.assign(this.names, { publicHost: await link('host', this.names.host), publicJob: await link('job', this.names.job) });
    if (!this.names.publicHost || !this.names.publicJob) this.complain('links', ['the node makes no links']);
  }

  async context(scheme = 'light', width = 1280) {
    const context = await this.browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    await context.addInitScript(watch);
    if (this.token) await context.request.post(new URL('api/v1/session', this.url).href, { headers: { authorization: `Bearer ${this.token}` } });
    await context.route((url) => url.origin !== this.origin && !['data:', 'blob:'].includes(url.protocol), (route) => {
      this.complain(this.where ?? 'page', [`a request goes to another origin: ${route.request().url().slice(0, 120)}`]);
      return route.abort();
    });
    if (this.assets) await this.replaceAssets(context);
    return context;
  }

  /** The files of the dashboard as they are in a folder. */
  async replaceAssets(context) {
    await context.route((url) => url.pathname === '/' || /^\/(ui|public\/ui|public\/host|public\/job)\//.test(url.pathname), async (route) => {
      const { pathname } = new URL(route.request().url());
      const name = /^\/public\/(host|job)\//.test(pathname) ? 'public.html' : path.basename(pathname) || 'index.html';
      const answer = await route.fetch();
      return route.fulfill({ response: answer, headers: { ...answer.headers(), 'content-type': TYPES[name.split('.').at(-1)] ?? 'text/plain' }, body: await readFile(path.join(this.assets, name)) });
    });
  }

  /** Opens a page and listens to everything that goes wrong in it. */
  async open(context, hash, where, { mayFail = false, base = this.url } = {}) {
    const page = await context.newPage();
    const answers = [];
    this.where = where;
    page.on('pageerror', (error) => this.complain(where, [`the page has a fault: ${error.message}`]));
    page.on('console', (message) => {
      if (message.type() !== 'error') return;
      const isAnswer = message.text().startsWith('Failed to load resource') && /\/(api\/v1|web\/cdx)/.test(message.location().url);
      const isNotFound = isAnswer && message.text().includes('404');
      // The index answers 404 for a URL without a capture, as pywb does.
      const isOptional = isNotFound && (INDEX.test(message.location().url) || (this.mode !== 'cluster' && OPTIONAL.test(message.location().url)));
      if (!isOptional && !(isAnswer && mayFail)) this.complain(where, [`an error in the console: ${message.text().slice(0, 200)} ${message.location().url?.slice(0, 120) ?? ''}`]);
    });
    page.on('dialog', (dialog) => {
      this.complain(where, [`a dialog: ${dialog.message()}`]);
      dialog.dismiss();
    });
    page.on('popup', () => this.complain(where, ['a window']));
    page.on('download', () => this.complain(where, ['a download']));
    page.on('response', (response) => {
      const isList = /\/(api\/v1|web\/cdx|public\/v1)/.test(response.url()) && !response.url().includes('/live');
      if (isList) answers.push(response.text().catch(() => ''));
    });
    const response = await page.goto(new URL(hash, base).href, { waitUntil: 'commit' });
    await page.waitForFunction(() => globalThis.__ready, null, { timeout: 10_000 }).catch(() => this.complain(where, ['it has no data after ten seconds']));
    return { page, response, answers: async () => Promise.all(answers) };
  }

  /** Opens a page; a second and a third time if it was slow, because the machine may have been busy with something else. */
  async openInTime(context, hash, where, options) {
    for (let attempt = 1; ; attempt += 1) {
      const opened = await this.open(context, hash, where, options);
      const [paint, ready] = await opened.page.evaluate(() => [performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now(), globalThis.__ready ?? Infinity]);
      if (attempt === OPENS_MAX || (paint <= this.loadMs && ready <= this.loadMs)) return { ...opened, paint, ready };
      await opened.page.close();
    }
  }

  /** One page in all looks. */
  async judgePage(name, hash) {
    const mayFail = this.mode === 'archive' && !ARCHIVE_PAGES.includes(name);
    const times = [];
    let summary = '';
    for (const [scheme, width] of this.isQuick ? LOOKS.slice(0, 1) : LOOKS) {
      const where = `${name} ${scheme} ${width}`;
      const context = await this.context(scheme, width);
      const { page, response, answers, paint, ready } = await this.openInTime(context, hash, where, { mayFail });
      times.push(Math.round(ready));
      this.complain(where, [paint > this.loadMs && `it is painted after ${Math.round(paint)} ms`, ready > this.loadMs && `it has its data after ${Math.round(ready)} ms`].filter(Boolean));
      this.complain(where, checks.policy(response.headers()));
      await page.waitForTimeout(600);
      this.complain(where, await checks.accessible(page));
      this.complain(where, await checks.bounded(page));
      this.complain(where, await checks.structure(page));
      this.complain(where, await checks.unharmed(page));
      if (scheme === 'light' && width === 1280) {
        const { came, seen } = await checks.attacks(page, await answers());
        this.shown.set(name, { came, seen });
        const { count, found } = await checks.numbers(page, hash, this.ask);
        this.complain(where, found);
        if (name === 'hosts' && !mayFail) this.complain(where, await checks.hostRows(page, this.ask));
        summary = `${count} numbers as in the API, ${seen.length} of ${came.length} attacks shown as text`;
      }
      if (this.out) await page.screenshot({ path: path.join(this.out, `${name}-${scheme}-${width}.png`), fullPage: true });
      if (this.screens && ((scheme === 'light' && width === 1280) || SCREENS.includes(where))) await photograph(page, path.join(this.screens, `${where.replaceAll(' ', '-')}.png`));
      if (width === 1280 && scheme === 'light') this.complain(where, await checks.keyboard(page, STOPS_MIN[name]));
      if (width === 390 && scheme === 'light' && name === 'overview') this.complain(where, await this.menu(page));
      await context.close();
    }
    this.say(`${name.padEnd(11)} data after ${Math.max(...times)} ms at most; ${summary}`);
  }

  /** The menu of a small screen, by keyboard. */
  async menu(page) {
    await page.focus('.menu');
    await page.keyboard.press('Enter');
    const isOpen = await page.isVisible('nav a');
    await page.keyboard.press('Tab');
    const isThere = await page.evaluate(() => document.querySelector('.menu').getAttribute('aria-expanded') === 'true');
    return isOpen && isThere ? [] : ['the menu does not open by keyboard'];
  }

  /** Every attack in the address of the pages that take one. */
  async reflections() {
    const context = await this.context();
    let count = 0;
    for (const attack of this.isQuick ? ATTACKS.slice(0, 6) : ATTACKS) {
      for (const [index, make] of REFLECTING.entries()) {
        // The name of a job is shown when there is such a job, so the page of the job only has to be unharmed.
        if (this.mode === 'archive' && index > 0) continue;
        const where = `address with ${attack.name}`;
        let hash;
        try {
          hash = make(attack.text);
        } catch {
          // Half a character has no address.
          continue;
        }
        if (hash.length > 8000) continue;
        const { page } = await this.open(context, hash, where, { mayFail: true });
        await page.waitForTimeout(80);
        this.complain(where, await checks.unharmed(page));
        if (index === 0) this.complain(where, await checks.reflected(page, attack));
        await page.close();
        count += 1;
      }
    }
    await context.close();
    this.say(`addresses   ${count} with hostile strings`);
  }

  /** The log of each hostile site: the titles of its pages are the attacks. */
  async strange() {
    const context = await this.context();
    const end = Date.now() + HOSTILE_MS;
    for (const host of this.hostile) {
      // The last page of a site comes after all its rests.
      const lines = async () => (await this.ask(`log?host=${encodeURIComponent(host)}&limit=100`))?.lines ?? [];
      const isRead = async () => (await lines()).filter((line) => line.url.includes('/title/')).length >= ATTACKS.length / this.hostile.length;
      while (!(await isRead()) && Date.now() < end) await new Promise((done) => setTimeout(done, 500));
      const where = `log of ${host}`;
      const { page, answers } = await this.open(context, `#/log?host=${encodeURIComponent(host)}`, where);
      await page.waitForTimeout(600);
      this.complain(where, await checks.unharmed(page));
      this.shown.set(where, await checks.attacks(page, await answers()));
      await page.close();
    }
    await context.close();
  }

  /** A page by its keys alone: sorting, the dialog of a change, and the way back. */
  async keys() {
    const context = await this.context();
    if (this.mode !== 'archive') {
      const { page } = await this.open(context, '#/hosts', 'keys');
      const sort = page.locator('button.sort', { hasText: 'done' });
      if (await sort.count()) {
        await sort.focus();
        await page.keyboard.press('Enter');
        await page.waitForSelector('th[aria-sort] >> text=done', { timeout: 3000 }).catch(() => this.complain('keys', ['a header does not sort by Enter']));
      }
      await page.close();
      const { page: politeness } = await this.open(context, '#/politeness', 'keys');
      const stop = politeness.locator('button', { hasText: 'Stop a host' });
      if (await stop.isEnabled().catch(() => false)) {
        await stop.focus();
        await politeness.keyboard.press('Enter');
        const isIn = await politeness.evaluate(() => document.querySelector('dialog').open && document.querySelector('dialog').contains(document.activeElement));
        if (!isIn) this.complain('keys', ['the dialog of a change does not take the focus']);
        this.complain('dialog', await checks.accessible(politeness));
        await politeness.keyboard.press('Escape');
        const isBack = await politeness.evaluate(() => !document.querySelector('dialog').open && document.activeElement?.textContent.includes('Stop a host'));
        if (!isBack) this.complain('keys', ['Escape does not lead back from the dialog']);
      }
      await politeness.close();
    }
    await context.close();
  }

  /** The overview follows the API: each value that the API says is on the page within three seconds. */
  async follow() {
    const context = await this.context();
    const { page } = await this.open(context, '#/', 'follow');
    const shown = () => page.$eval('[data-of="status:done.pages"]', (one) => Number(one.value)).catch(() => NaN);
    let [slowest, changes, last] = [0, 0, NaN];
    const end = Date.now() + (this.isQuick ? 4000 : 10_000);
    while (Date.now() < end) {
      const value = (await this.ask('status'))?.done?.pages;
      if (value !== last) {
        const since = Date.now();
        while ((await shown()) < value && Date.now() - since <= FOLLOW_MS) await page.waitForTimeout(60);
        const took = Date.now() - since;
        if (!((await shown()) >= value)) this.complain('follow', [`the API says ${value} pages, the page ${await shown()} after ${took} ms`]);
        [slowest, changes, last] = [Math.max(slowest, took), changes + 1, value];
      }
      await page.waitForTimeout(100);
    }
    this.say(`follow      ${changes} values of the API, each shown within ${slowest} ms`);
    await context.close();
  }

  /** A change of the stop list is seen on an open page. */
  async change() {
    const context = await this.context();
    const { page } = await this.open(context, '#/politeness', 'change');
    const target = `judge-${Date.now()}.invalid`;
    await this.ask('stops', 'POST', { stops: [{ target, reason: 'a test of the dashboard', author: 'judge' }] });
    const since = Date.now();
    await page.getByText(target).first().waitFor({ timeout: FOLLOW_MS, state: 'attached' }).catch(() => {
      this.complain('change', [`the new stop is not on the page after ${FOLLOW_MS} ms`]);
    });
    this.say(`change      a new stop is seen after ${Date.now() - since} ms`);
    await this.ask(`stops/${encodeURIComponent(target)}`, 'DELETE');
    await context.close();
  }

  /** A node dies while its page and pages of another node are open; then it comes back. */
  async death() {
    const context = await this.context();
    await context.unrouteAll();
    if (this.assets) await this.replaceAssets(context);
    const { page: first } = await this.open(context, '#/cluster', 'death', { mayFail: true });
    const { page: overview } = await this.open(context, '#/', 'death', { mayFail: true });
    const { page: second } = await this.open(context, '#/', 'death', { mayFail: true, base: this.second });
    await second.waitForSelector('[data-of="status:done.pages"]');
    const name = (await fetch(new URL('api/v1/status', this.second)).then((answer) => answer.json())).name;
    await second.waitForTimeout(1500);
    const before = JSON.stringify(await this.nodes());
    await this.command(this.kill);
    const killed = Date.now();
    const since = () => Date.now() - killed;
    const lost = second.waitForSelector('#lost:not([hidden])', { timeout: 10_000 }).then(since, () => this.complain('death', ['the page of the dead node does not say that the connection is lost']));
    const row = overview.locator('tr', { has: overview.getByText(name, { exact: true }) }).getByText('no answer');
    const noticed = row.first().waitFor({ timeout: FOLLOW_MS }).then(since, () => this.complain('death', [`the overview of another node does not show the death within ${FOLLOW_MS} ms`]));
    let changed = 0;
    while (since() < 90_000 && !changed) {
      if (JSON.stringify(await this.nodes()) !== before) changed = Date.now();
      else await first.waitForTimeout(150);
    }
    if (!changed) this.complain('death', ['the API does not show the death of the node']);
    const seen = async () => {
      const said = await this.ask('cluster');
      return first.evaluate(([count, none]) => document.querySelector('[data-of="cluster:nodes.length"]')?.value === String(count) && document.querySelector('[data-of="cluster:without_owner"]')?.value === String(none), [said?.nodes.length, said?.without_owner]);
    };
    while (!(await seen()) && Date.now() - changed < FOLLOW_MS) await first.waitForTimeout(100);
    if (!(await seen())) this.complain('death', [`the page of the cluster does not follow within ${FOLLOW_MS} ms`]);
    const onPage = Date.now() - changed;
    const keeps = await second.isVisible('[data-of="status:done.pages"]');
    if (!keeps) this.complain('death', ['the page of the dead node has lost its numbers']);
    this.say(`death       lost after ${await lost} ms, seen on another node after ${await noticed} ms; in the API after ${changed - killed} ms, on the page ${onPage} ms later`);
    if (this.out) {
      await overview.screenshot({ path: path.join(this.out, 'death-overview.png'), fullPage: true });
      await first.screenshot({ path: path.join(this.out, 'death-cluster.png'), fullPage: true });
      await second.screenshot({ path: path.join(this.out, 'death-lost.png') });
    }
    this.complain('death', await checks.accessible(second));
    this.complain('death', await checks.unharmed(second));
    await this.elsewhere(context, second);
    if (this.revive) await this.comesBack(second);
    await context.close();
  }

  /** The page of a dead node leads to the same page of another node. */
  async elsewhere(context, page) {
    const links = await page.$$eval('#lost a', (all) => all.map((link) => link.href));
    if (!links.length) return this.complain('death', ['the page of the dead node names no address of another node']);
    const opened = await this.open(context, '#/', 'death', { base: links[0] });
    if (!(await opened.page.$('[data-of="status:done.pages"]'))) this.complain('death', [`${links[0]} is no overview`]);
    await opened.page.close();
    this.say(`elsewhere   the page of the dead node leads to ${links.join(' and ')}`);
  }

  /** The page goes on by itself when its node is back. */
  async comesBack(page) {
    await this.command(this.revive);
    const end = Date.now() + REVIVE_MS;
    const answers = () => fetch(new URL('api/v1/status', this.second)).then((answer) => answer.ok, () => false);
    while (!(await answers()) && Date.now() < end) await page.waitForTimeout(100);
    const back = Date.now();
    await page.waitForSelector('#connection .good', { timeout: GO_ON_MS }).catch(() => this.complain('death', [`the page does not go on within ${GO_ON_MS} ms after its node is back`]));
    if (await page.isVisible('#lost')) this.complain('death', ['the page still says that the connection is lost']);
    this.say(`back        the page goes on ${Date.now() - back} ms after its node answers again`);
  }

  async command(command) {
    await (typeof command === 'function' ? command() : new Promise((done) => exec(command, done)));
  }

  async nodes() {
    const said = await this.ask('cluster');
    return [said?.without_owner, said?.nodes.map((node) => [node.name, node.partitions])];
  }

  async run() {
    for (const folder of [this.out, this.screens]) if (folder) await mkdir(folder, { recursive: true });
    this.browser = await chromium.launch({ executablePath: this.chromium ?? '/usr/bin/chromium', args: QUIET });
    try {
      await this.learn();
      for (const [name, make] of Object.entries(PAGES)) {
        const hash = make(this.names);
        if (hash && (!this.only || this.only.includes(name))) await this.judgePage(name, hash).catch((error) => this.complain(name, [`the page goes elsewhere or breaks: ${error.message.split('\n')[0]}`]));
      }
      if (!this.only || this.only.includes('addresses')) await this.reflections();
      if (this.hostile && (!this.only || this.only.includes('hostile'))) await this.strange();
      if (!this.only || this.only.includes('keys')) await this.keys();
      if (this.mode !== 'archive' && (!this.only || this.only.includes('follow'))) await this.follow();
      if (this.mayChange && (!this.only || this.only.includes('change'))) await this.change();
      if (this.second && this.kill) await this.death();
      const seen = new Set([...this.shown.values()].flatMap((page) => page.seen));
      const came = new Set([...this.shown.values()].flatMap((page) => page.came));
      const never = [...came].filter((name) => !seen.has(name));
      // A list has pages, so on a real node an attack may come and stand on a later page.
      if (never.length && this.isStrict) this.complain('attacks', [`came from the API and are nowhere shown as text: ${never.join(', ')}`]);
      if (seen.size < (this.wantAttacks ?? 0)) this.complain('attacks', [`${seen.size} hostile strings are shown as text, ${this.wantAttacks} are wanted`]);
      this.say(`attacks     ${seen.size} of ${came.size} that came from the API are shown as text`);
    } finally {
      await this.browser.close();
    }
    return this.complaints;
  }
}

/** Judges the dashboard at `url`; returns complaints. */
export const judge = (options) => new Judge(options).run();

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [url, ...rest] = process.argv.slice(2);
  const option = (name) => (rest.includes(`--${name}`) ? rest[rest.indexOf(`--${name}`) + 1] : undefined);
  if (!url || url.startsWith('--')) {
    console.error('usage: node dashboard.mjs URL [--second URL] [--token TOKEN] [--out DIR] [--kill COMMAND] [--revive COMMAND] [--may-change] [--only PAGE,PAGE] [--chromium PATH] [--load-ms 1000] [--quick] [--strict] [--want-attacks N] [--hostile HOST,HOST] [--assets DIR] [--screens DIR]');
    process.exit(2);
  }
  const complaints = await judge({ url: url.endsWith('/') ? url : `${url}/`, second: option('second'), token: option('token'), out: option('out'), kill: option('kill'), revive: option('revive'), assets: option('assets'), screens: option('screens'), wantAttacks: Number(option('want-attacks') ?? 0), chromium: option('chromium'), only: option('only')?.split(','), hostile: option('hostile')?.split(','), mayChange: rest.includes('--may-change'), loadMs: Number(option('load-ms') ?? LOAD_MS), isQuick: rest.includes('--quick'), isStrict: rest.includes('--strict') });
  console.log(complaints.length ? `${complaints.length} complaints` : 'no complaint');
  process.exit(complaints.length ? 1 : 0);
}
