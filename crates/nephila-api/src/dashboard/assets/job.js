// One job: seeds, rules with what they rejected, limits, depths, and the scope test that answers while rules are edited.

import { bars } from './charts.js';
import { send } from './api.js';
import { crawled, foreign, h, route, visible } from './dom.js';
import { ago, bytes, full, num, time } from './format.js';
import { addButton, jobButtons } from './jobs.js';
import { linkButton } from './links.js';
import { jobProgress, jobState } from './overview.js';
import { bar, card, facts, heading, pill } from './parts.js';
import { local, table } from './table.js';

export const title = (page) => `Job ${page.path}`;

/** URLs of one scope test, and how long the page waits after the last key. */
const URLS_MAX = 1000;
const TYPING_MS = 350;
const EXAMPLES = 5;
const KINDS = { page: 'the seeds alone', prefix: 'the folders of the seeds', host: 'the hosts of the seeds', domain: 'the domains of the seeds', any: 'everything' };
export const VERDICTS = { in: ['good', 'in scope'], out: ['off', 'out of scope'], trap: ['warn', 'trap'], robots: ['warn', 'robots.txt forbids it'], bad: ['bad', 'not a URL'] };

export function open(page) {
  const state = { seeds: { key: '', from: 0 }, rules: { key: 'hits', desc: true } };
  let said = null;
  const test = new ScopeTest(page, () => said, () => draw());
  const draw = () => said && page.show(view(page, said, test, state, draw, again));
  const again = page.every(3, async () => {
    said = await page.get(`jobs/${encodeURIComponent(page.path)}`);
    test.take(said.job);
    draw();
  });
}

function view(page, said, test, state, redraw, again) {
  const { job } = said;
  const seeds = said.seeds ?? (job.scope?.seeds ?? []).map((url) => ({ url }));
  const row = { ...job, progress: said.progress };
  return [
    heading(['Job ', foreign(job.name, 80), ' ', jobState(row)], num(said.progress?.pages, 'job:progress.pages'), ' pages, ', num(said.progress?.left, 'job:progress.left'), ' URLs left, ', bytes(said.progress?.bytes, 'job:progress.bytes'), ' received'),
    h('p', { class: 'buttons w12' }, jobButtons(page, job, again), addButton(page, job.name, again), linkButton(page, { kind: 'job', name: job.name, label: 'Public link', title: `A public link to the job ${job.name}`,
      says: 'Whoever has the link sees how far the job is, without a token, and nothing of its sites, until the link is over. A single link cannot be taken back.' }), h('span', { class: 'dim' }, page.actions.refusal(page.status))),
    card(6, 'Job', null, jobProgress(row), facts(
      ['scope', KINDS[job.scope?.kind] ?? foreign(job.scope?.kind ?? '–'), job.scope?.extra_hops ? `, and ${job.scope.extra_hops} links beyond` : ''],
      ['depth', job.scope?.depth_max === 255 ? 'no limit' : `at most ${full(job.scope?.depth_max)} links from a seed`],
      ['priority', `${full(job.priority)} (0 goes first, 9 last)`], ['fetched again', schedule(job.schedule)],
      ['complete', said.progress?.complete ? time(said.progress.complete) : ''], ['ended', said.ended ? foreign(JSON.stringify(said.ended), 200) : ''],
      ['moved seeds', said.moved?.length ? said.moved.slice(0, EXAMPLES).map((url) => h('div', {}, crawled(url, 200))) : ''])),
    card(6, 'Limits', null, limits(job.limits ?? {}, said.progress ?? {})),
    card(12, 'Seeds', `${full(said.seeds_total ?? seeds.length)}${(said.seeds_total ?? 0) > seeds.length ? `; the first ${full(seeds.length)} are shown` : ''}`, local({ caption: 'Seeds', rows: seeds, state: state.seeds, redraw, size: 10, key: (seed) => seed.url, none: 'The job has no seeds: URLs are added to it.', columns: [
      { key: 'url', label: 'seed', sort: true, value: (seed) => seed.url, cell: (seed) => crawled(seed.url, 200) },
      { key: 'state', label: 'state', sort: true, value: (seed) => seed.state, cell: (seed) => seedState(seed) },
      { key: 'status', label: 'status', number: true, cell: (seed) => (seed.status ? String(seed.status) : '–') },
      { key: 'at', label: 'last asked', cell: (seed) => ago(seed.at) }] })),
    card(said.depths?.length ? 8 : 12, 'Rules and what they decided', 'since the process started', rules(said.rules ?? [], state.rules, redraw)),
    said.depths?.length ? card(4, 'Depth', 'links from a seed', depths(said.depths)) : null,
    test.element(),
  ];
}

function seedState(seed) {
  const kinds = { fetched: 'good', redirected: 'good', failed: 'bad', queued: 'wait', fetching: 'busy' };
  return [seed.state ? pill(kinds[seed.state] ?? 'none', visible(seed.state, 40)) : '–', seed.outcome && seed.outcome !== 'ok' ? [' ', h('code', {}, foreign(seed.outcome, 60))] : null];
}

function schedule(said) {
  if (said === undefined || said === 'once') return 'never';
  if (said.every) return ['every ', foreign(said.every, 40)];
  return said.adaptive ? 'by how often each page changes' : foreign(JSON.stringify(said), 100);
}

function limits(of, progress) {
  const row = (name, max, used, show) => (max ? [name, show(max), used === undefined ? '' : [' · used ', show(used), bar(used, max, `${name} used`, used >= max ? 'warn' : '')]] : [name, h('span', { class: 'dim' }, 'no limit')]);
  return facts(row('pages', of.pages_max, progress.pages, num), row('bytes', of.bytes_max, progress.bytes, bytes),
    ['time', of.time_max && of.time_max !== '0s' ? foreign(of.time_max, 40) : h('span', { class: 'dim' }, 'no limit')],
    row('pages of a host', of.pages_per_host_max, undefined, num), row('pages of a domain', of.pages_per_domain_max, undefined, num));
}

function rules(list, state, redraw) {
  return local({ caption: 'Rules and what they decided', rows: list, state, redraw, size: 20, key: (rule) => `${rule.rule} ${rule.origin}`, none: 'No rule has decided anything yet.', columns: [
    { key: 'rule', label: 'rule', sort: true, value: (rule) => rule.rule, cell: (rule) => [h('code', {}, foreign(rule.rule, 200)), h('div', { class: 'dim' }, foreign(rule.origin ?? '', 100))] },
    { key: 'wanted', label: 'decides', cell: (rule) => pill(rule.wanted ? 'good' : 'off', rule.wanted ? 'in' : 'out') },
    { key: 'hits', label: 'URLs', number: true, sort: true, value: (rule) => rule.hits, cell: (rule) => num(rule.hits) },
    { key: 'examples', label: 'examples', cell: (rule) => examples(rule.examples ?? []) }] });
}

function examples(urls) {
  if (!urls.length) return h('span', { class: 'none' }, '–');
  return h('details', {}, h('summary', {}, `${urls.length} examples`), h('ul', { class: 'plain' }, urls.slice(0, 20).map((url) => h('li', {}, crawled(url, 200)))));
}

function depths(list) {
  return bars('Pages by depth', list.map(({ depth, pages }) => ({ label: depth === 0 ? 'seeds' : `${depth}`, value: pages })));
}

/** The scope test. The fields belong to the reader: an update of the page leaves them alone. */
class ScopeTest {
  #page;
  #fields = null;
  #results = h('div', { 'aria-live': 'polite' });
  #changed = h('p', { class: 'buttons' });
  #section = null;
  #timer = 0;
  #round = 0;
  #job = null;

  constructor(page) {
    this.#page = page;
    page.onClose(() => clearTimeout(this.#timer));
  }

  take(job) {
    this.#job = job;
    if (!this.#section) this.#build(job.scope ?? {});
  }

  element() {
    return this.#section?.isConnected ? h('section', { 'data-keep': 'scope-test' }) : this.#section;
  }

  #build(scope) {
    const typed = () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#ask(), TYPING_MS);
    };
    const area = (id, label, value, rows) => {
      const made = h('textarea', { id, rows, spellcheck: 'false', on: { input: typed } });
      made.value = value;
      return [made, h('p', { class: 'field' }, h('label', { for: id }, label), made)];
    };
    const [urls, urlsField] = area('test-urls', `URLs to test, one per line, at most ${full(URLS_MAX)}`, '', 6);
    const [include, includeField] = area('test-include', 'Include: patterns that bring a URL in, one per line', (scope.include ?? []).join('\n'), 3);
    const [exclude, excludeField] = area('test-exclude', 'Exclude: patterns that keep a URL out, one per line', (scope.exclude ?? []).join('\n'), 3);
    const kind = h('select', { id: 'test-kind', on: { change: typed } }, Object.entries(KINDS).map(([value, label]) => h('option', { value, selected: value === scope.kind }, `${value}: ${label}`)));
    const depth = h('input', { id: 'test-depth', type: 'number', min: 0, max: 255, value: scope.depth_max ?? 20, on: { input: typed } });
    this.#fields = { urls, include, exclude, kind, depth };
    this.#section = h('section', { class: 'w12', 'data-keep': 'scope-test' },
      h('h2', {}, h('span', { class: 'title' }, 'Scope test'), h('span', { class: 'aside' }, 'nothing is queued, nothing is changed')),
      h('p', { class: 'dim' }, 'Paste URLs to see which rule decides each. Change the rules below to see what they would decide; “Apply” gives them to the job.'),
      urlsField, this.#results,
      h('div', { class: 'fields' }, h('p', {}, h('label', { for: 'test-kind' }, 'Scope'), kind), h('p', {}, h('label', { for: 'test-depth' }, 'Greatest depth (255: no limit)'), depth)),
      includeField, excludeField, this.#changed);
    this.#ask();
  }

  #scope() {
    const { include, exclude, kind, depth } = this.#fields;
    const lines = (area) => area.value.split('\n').map((line) => line.trim()).filter(Boolean);
    return { kind: kind.value, include: lines(include), exclude: lines(exclude), depth_max: Number(depth.value) };
  }

  /** What differs from the rules of the job. */
  #difference() {
    const now = this.#scope();
    const before = this.#job.scope ?? {};
    return Object.fromEntries(Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name] ?? (Array.isArray(value) ? [] : value))));
  }

  async #ask() {
    const round = (this.#round += 1);
    const changes = this.#difference();
    const isChanged = Object.keys(changes).length > 0;
    this.#showChanges(changes, isChanged);
    const urls = this.#fields.urls.value.split('\n').map((line) => line.trim()).filter(Boolean);
    if (!urls.length) {
      this.#results.replaceChildren();
      return;
    }
    const body = { urls: urls.slice(0, URLS_MAX), job: this.#job.name };
    if (isChanged) body.scope = { ...this.#job.scope, ...changes };
    try {
      const answer = await send('POST', 'scope/test', { body });
      if (round === this.#round) this.#showResults(answer, urls.length);
    } catch (problem) {
      if (round === this.#round) this.#results.replaceChildren(h('p', { class: 'note warn' }, h('b', {}, foreign(problem.title ?? problem.message), ' '), foreign(problem.detail ?? '')));
    }
  }

  #showResults(rows, asked) {
    const inside = rows.filter((row) => row.verdict === 'in').length;
    this.#results.replaceChildren(
      h('p', {}, `${inside} of ${rows.length} in scope.${asked > URLS_MAX ? ` The other ${full(asked - URLS_MAX)} lines were not tested.` : ''}${rows.length > 100 ? ' The first 100 are shown.' : ''}`),
      table({ caption: 'Verdicts of the scope test', rows, columns: [
        { key: 'url', label: 'URL', cell: (row) => crawled(row.url, 200) },
        { key: 'verdict', label: 'verdict', cell: (row) => [pill(...(VERDICTS[row.verdict] ?? ['none', visible(row.verdict, 40)])), row.robots_known === false && row.verdict === 'in' ? h('div', { class: 'dim' }, 'robots.txt is not read yet') : null] },
        { key: 'rule', label: 'rule', cell: (row) => [h('code', {}, foreign(row.rule ?? '', 200)), row.origin ? h('div', { class: 'dim' }, foreign(row.origin, 100)) : null] }] }));
  }

  #showChanges(changes, isChanged) {
    if (!isChanged) {
      this.#changed.replaceChildren(h('span', { class: 'dim' }, 'These are the rules of the job.'));
      return;
    }
    const page = this.#page;
    const words = { kind: 'scope', include: 'include', exclude: 'exclude', depth_max: 'greatest depth' };
    this.#changed.replaceChildren(
      page.actions.button({ label: 'Apply to the job', kind: 'main', status: page.status, title: `Change the rules of the job ${this.#job.name}`,
        says: [`Changes: ${Object.keys(changes).map((name) => words[name]).join(', ')}. From now on new links are judged by these rules. URLs that are queued already are judged again before they are fetched. Nothing that was fetched is deleted.`],
        run: () => send('PATCH', `jobs/${encodeURIComponent(this.#job.name)}`, { body: { scope: changes } }),
        done: () => {
          this.#job.scope = { ...this.#job.scope, ...changes };
          this.#ask();
        } }),
      h('button', { type: 'button', on: { click: () => this.#reset() } }, 'Back to the rules of the job'));
  }

  #reset() {
    const { include = [], exclude = [], kind, depth_max: depth } = this.#job.scope ?? {};
    Object.assign(this.#fields.include, { value: include.join('\n') });
    Object.assign(this.#fields.exclude, { value: exclude.join('\n') });
    Object.assign(this.#fields.kind, { value: kind });
    Object.assign(this.#fields.depth, { value: depth });
    this.#ask();
  }
}

export const jobLink = (name) => h('a', { href: route(`job/${encodeURIComponent(name)}`) }, foreign(name, 80));
