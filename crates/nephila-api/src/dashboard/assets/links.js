// Links to the public pages of a host and of a job: a button that makes one, and the dialog that shows it.

import { field } from './actions.js';
import { send } from './api.js';
import { h, outside, visible } from './dom.js';
import { time } from './format.js';

/** Usual and longest life of a link in days. */
const DAYS = 7;
const DAYS_MAX = 90;

/** A button that makes a link: `{kind, name, label, title, says}`. */
export function linkButton(page, { kind, name, label, title, says }) {
  return page.actions.button({ label, status: page.status, title, says,
    fields: [field('days', `Days until the link is over, at most ${DAYS_MAX}`, { type: 'number', min: 1, max: DAYS_MAX, step: 1, value: DAYS, required: true })],
    run: ({ days }) => send('POST', 'links', { body: { kind, name, for_s: Math.round(Number(days) * 86_400) } }),
    done: (link) => show(page, link, title) });
}

function show(page, link, title) {
  const text = h('input', { id: 'made-link', type: 'text', readonly: true, spellcheck: 'false', autocomplete: 'off' });
  text.value = link.url;
  const said = h('span', { class: 'dim', role: 'status' });
  const copy = h('button', { type: 'button', on: { click: async () => {
    text.select();
    try {
      await navigator.clipboard.writeText(link.url);
      said.textContent = 'Copied.';
    } catch {
      // Browsers permit it over https and on this machine alone.
      said.textContent = 'Copy the marked text.';
    }
  } } }, 'Copy');
  page.actions.show(title,
    h('p', { class: 'field' }, h('label', { for: 'made-link' }, 'Link'), text),
    h('p', {}, copy, ' ', outside(visible(link.url), 'open it'), ' ', said),
    h('p', { class: 'dim' }, 'It is over at ', time(link.until), '. The people must reach this server: docs/links.md says how.'));
  text.select();
}
