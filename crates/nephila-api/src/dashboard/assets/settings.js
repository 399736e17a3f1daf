// Settings: the effective values, where each comes from, and which can be changed while the process runs; the session.

import { foreign, h, visible } from './dom.js';
import { full } from './format.js';
import { card, heading, loading, pill } from './parts.js';
import { local } from './table.js';

export const title = () => 'Settings';

export function open(page) {
  const state = { key: '', from: 0, text: '', isChangedOnly: false };
  let settings = null;
  page.wait(...loading('Settings'));
  const draw = () => settings && page.show(view(page, settings, state, draw));
  page.once(async () => {
    ({ settings } = await page.get('settings'));
    draw();
  });
  page.actions.refresh().then(draw);
}

const text = (value) => (typeof value === 'string' ? value : value === null ? '(none)' : JSON.stringify(value) ?? '');
/** The help text, with its `code` as code. */
const help = (words) => words.slice(0, 1000).split('`').map((part, at) => (at % 2 ? h('code', {}, foreign(part)) : foreign(part, 1000)));
const isDefault = (setting) => setting.origin === 'default';

function view(page, settings, state, redraw) {
  const wanted = state.text.toLowerCase();
  const rows = settings.filter((setting) => (!state.isChangedOnly || !isDefault(setting)) && (!wanted || `${setting.key} ${text(setting.value)} ${setting.help}`.toLowerCase().includes(wanted)));
  const changed = settings.filter((setting) => !isDefault(setting)).length;
  return [
    heading('Settings', `${full(settings.length)} settings, ${full(changed)} of them not at their default. Settings are read when the process starts; those marked “live” are read again on SIGHUP.`),
    filter(state, redraw),
    card(12, 'Effective values', `${full(rows.length)} shown`, local({ caption: 'Settings', rows, state, redraw, size: 100, key: (setting) => setting.key, none: 'No setting matches.', columns: [
      { key: 'key', label: 'setting', sort: true, value: (setting) => setting.key, cell: (setting) => [h('code', {}, foreign(setting.key, 100)), setting.help ? h('div', { class: 'dim' }, help(setting.help)) : null] },
      { key: 'value', label: 'value', cell: (setting) => [h('code', {}, foreign(text(setting.value), 300)), setting.secret ? h('div', { class: 'dim' }, 'a secret: never shown') : null] },
      { key: 'default', label: 'default', class: 'code', cell: (setting) => (isDefault(setting) ? h('span', { class: 'dim' }, 'the same') : h('code', {}, foreign(text(setting.default) || '(empty)', 200))) },
      { key: 'origin', label: 'from', class: 'name', sort: true, value: (setting) => setting.origin, cell: (setting) => (isDefault(setting) ? h('span', { class: 'dim' }, 'default') : h('b', {}, foreign(setting.origin, 200))) },
      { key: 'live', label: 'live', sort: true, value: (setting) => Number(setting.live), cell: (setting) => (setting.live ? pill('good', 'live') : h('span', { class: 'dim' }, 'at start')) }] })),
    card(12, 'Your session', null, session(page)),
  ];
}

function filter(state, redraw) {
  const input = (event) => {
    Object.assign(state, { text: event.target.value, from: 0 });
    redraw();
  };
  const change = (event) => {
    Object.assign(state, { isChangedOnly: event.target.checked, from: 0 });
    redraw();
  };
  return h('form', { class: 'fields w12', role: 'search', 'aria-label': 'Settings', on: { submit: (event) => event.preventDefault() } },
    h('p', {}, h('label', { for: 'setting' }, 'Name, value or help contains'), h('input', { id: 'setting', maxlength: 100, spellcheck: 'false', on: { input } })),
    h('p', {}, h('input', { id: 'changed', type: 'checkbox', on: { change } }), ' ', h('label', { for: 'changed', class: 'check' }, 'only those that are not at their default')));
}

function session(page) {
  const { actions } = page;
  if (actions.by === 'machine') return h('p', {}, 'This node needs no token from this machine: whoever reaches it here may read and change everything.');
  const role = { read: 'You may read, and change nothing.', operate: 'You may read, add URLs and drive jobs.', admin: 'You may read and change everything.' }[actions.role];
  return [h('p', {}, actions.by === 'session' ? 'You are signed in' : 'A proxy adds a token', ' with the role ', h('b', {}, visible(actions.role ?? 'unknown', 40)), '. ', role ?? ''),
    h('p', { class: 'buttons' }, actions.by !== 'session' ? null : h('button', { type: 'button', on: { click: async () => {
      await actions.leave();
      location.reload();
    } } }, 'Sign out'), again(page))];
}

function again(page) {
  return h('button', { type: 'button', on: { click: () => page.live.dispatchEvent(new CustomEvent('unauthorised')) } }, 'Sign in with another token');
}
