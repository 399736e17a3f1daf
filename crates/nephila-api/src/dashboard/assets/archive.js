// Archive: the WARC files, what is in them, and a way to the captures of a host or a URL.

import { bars } from './charts.js';
import { foreign, h, route, visible } from './dom.js';
import { bytes, count, full, num, percent, size, time } from './format.js';
import { card, empty, facts, heading, loading, partNote, pill, step } from './parts.js';
import { local, table } from './table.js';
import { captureTable } from './url.js';

export const title = () => 'Archive';

const FILES = 50;
const CAPTURES = 500;
const TYPES = 12;
const MATCHES = { exact: 'this URL', prefix: 'everything below it', host: 'its whole host', domain: 'its whole domain' };

export function open(page) {
  const { cursor = '', url = '', match = 'host' } = page.parameters;
  const state = { captures: { key: '', from: 0 } };
  let [said, captures] = [null, null];
  page.wait(heading('Archive'), ...loading('').slice(1));
  const draw = () => said && page.show(view(said, captures, { cursor, url, match }, state, draw));
  page.every(10, async () => {
    said = await page.get('archive', { limit: FILES, cursor });
    draw();
  });
  if (url) {
    page.once(async () => {
      captures = await find(page, url, match);
      draw();
    });
  }
}

async function find(page, url, match) {
  try {
    return { value: (await page.lines('web/cdx', { url, matchType: match, output: 'json', limit: CAPTURES })).filter((row) => row.timestamp) };
  } catch (problem) {
    return problem.status === 404 ? { value: [] } : { problem };
  }
}

function view(said, captures, asked, state, redraw) {
  const saved = said.saved_bytes ?? 0;
  const all = (said.bytes ?? 0) + saved;
  return [
    heading([num(said.captures, 'archive:captures'), ' captures in ', bytes(said.bytes, 'archive:bytes'), '.'],
      saved ? [bytes(saved, 'archive:saved_bytes'), ' were not written again because the page was known already (', percent(all ? saved / all : 0), '). '] : '',
      said.unindexed ? `${count(said.unindexed, 'file')} still open: the captures in it are not counted yet. ` : '',
      said.complete === false ? 'There are more files than one request reads; the counts go on to grow. ' : ''),
    card(12, 'Find captures', 'to replay them', finder(asked), asked.url ? found(captures, state.captures, redraw) : null),
    card(6, 'Types', 'by captures', types(said.types ?? [])),
    card(6, 'Statuses', 'by captures', statuses(said.statuses ?? [])),
    card(12, 'Files', said.files_total === undefined ? null : `${full(said.files_total)}, the newest first`, files(said.files ?? []), h('p', { class: 'pager' },
      step(asked.cursor ? route('archive', { url: asked.url, match: asked.match }) : '', '⇤ First files'), ' ', step(said.cursor ? route('archive', { cursor: said.cursor }) : '', 'Next files →'))),
    card(12, 'Read it with other programs', null, facts(['CDX', h('code', {}, 'web/cdx?url=…'), ' as pywb and Common Crawl answer'], ['Memento', h('code', {}, 'web/timemap/link/URL'), ', ', h('code', {}, 'web/URL')], ['export', h('code', {}, 'nephila export wacz'), ' for ReplayWeb.page'])),
  ];
}

function finder({ url, match }) {
  const submit = (event) => {
    event.preventDefault();
    location.hash = route('archive', Object.fromEntries(new FormData(event.target)));
  };
  return h('form', { class: 'fields', role: 'search', 'aria-label': 'Captures', on: { submit } },
    h('p', {}, h('label', { for: 'capture-url' }, 'URL or host'), h('input', { id: 'capture-url', name: 'url', value: visible(url), required: true, maxlength: 8192, spellcheck: 'false' })),
    h('p', {}, h('label', { for: 'capture-match' }, 'Find'), h('select', { id: 'capture-match', name: 'match' }, Object.entries(MATCHES).map(([value, label]) => h('option', { value, selected: value === match }, label)))),
    h('p', {}, h('button', { type: 'submit', class: 'main' }, 'Find')));
}

function found(captures, state, redraw) {
  if (!captures) return h('p', { class: 'loading' }, 'Loading …');
  if (captures.problem) return partNote(captures.problem, 'the captures');
  return [captures.value.length >= CAPTURES ? h('p', { class: 'dim' }, `The first ${full(CAPTURES)} captures.`) : null, captureTable('Captures', captures.value, state, redraw)];
}

function types(list) {
  if (!list.length) return empty('Nothing is archived yet.');
  const more = list.slice(TYPES);
  const rows = list.slice(0, TYPES).map(({ type, count: many, bytes: stored }) => ({ label: foreign(type, 60), value: many, text: `${full(many)} · ${size(stored)}` }));
  if (more.length) rows.push({ label: `${more.length} other types`, value: more.reduce((sum, { count: many }) => sum + many, 0) });
  return bars('Captures by type', rows);
}

const MEANINGS = { 1: 'information', 2: 'ok', 3: 'redirect or unchanged', 4: 'refused or not there', 5: 'fault of the server' };

function statuses(list) {
  if (!list.length) return empty('Nothing is archived yet.');
  return table({ caption: 'Captures by status', wide: true, rows: list.slice(0, 20), key: (row) => String(row.status), columns: [
    { key: 'status', label: 'status', cell: (row) => [foreign(row.status, 20), ' ', h('span', { class: 'dim' }, MEANINGS[String(row.status)[0]] ?? 'no status')] }, { key: 'count', label: 'captures', number: true, cell: (row) => num(row.count) }] });
}

function files(list) {
  return table({ caption: 'WARC files', rows: list.slice(0, FILES), key: (file) => file.name, none: 'There is no file yet.', columns: [
    { key: 'name', label: 'file', cell: (file) => [h('code', {}, foreign(file.name, 200)), file.node ? h('div', { class: 'dim' }, 'on ', foreign(file.node, 80)) : null] },
    { key: 'state', label: 'state', cell: (file) => (file.open ? pill('busy', 'being written') : pill('none', 'closed')) },
    { key: 'bytes', label: 'size', number: true, cell: (file) => bytes(file.bytes) }, { key: 'records', label: 'records', number: true, cell: (file) => num(file.records) },
    { key: 'first', label: 'first record', cell: (file) => time(file.first) }, { key: 'last', label: 'last record', cell: (file) => time(file.last) }] });
}
