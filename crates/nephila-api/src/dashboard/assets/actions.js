// Changes: a button, a dialog that says what will happen, and the answer of the node. Readers see the buttons disabled.

import { Problem, get, send, signIn, signOut } from './api.js';
import { foreign, h, visible } from './dom.js';

export class Actions {
  /** Role of the token; none while nobody has said. */
  role = null;
  /** How the node knows us: `session` (signed in), `token` (a proxy adds one), `machine` (no token is needed). */
  by = 'machine';
  #dialog;
  #say;

  constructor(dialog, say) {
    this.#dialog = dialog;
    this.#say = say;
  }

  /** Asks for the role. A node that needs no token has no sessions. */
  async refresh() {
    try {
      const session = await get('session');
      this.role = session?.role ?? null;
      this.by = session?.by ?? 'machine';
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.role = null;
    }
  }

  get mayChange() {
    return this.role !== 'read';
  }

  /** Why a change is not possible now, or nothing. */
  refusal(status) {
    if (status?.mode === 'archive') return 'This is a finished archive: nothing can be changed.';
    return this.mayChange ? '' : 'Your token permits reading only.';
  }

  /**
   * A button for a change: `{label, title, says, fields, run(values), done, kind, status}`. `says` is shown before
   * anything happens; `fields` are elements with names whose values `run` gets.
   */
  button(action) {
    const refusal = this.refusal(action.status);
    return h('button', { type: 'button', class: action.kind, disabled: Boolean(refusal), title: refusal || undefined, on: { click: () => this.open(action) } }, action.label,
      action.about ? h('span', { class: 'hidden' }, ' ', visible(action.about, 100)) : null);
  }

  /** Opens the dialog of a change. */
  open({ label, title, says, fields = [], run, done, kind }) {
    const dialog = this.#dialog;
    const result = h('div', { role: 'alert' });
    const submit = h('button', { type: 'submit', class: kind ?? 'main' }, label);
    const cancel = h('button', { type: 'button', on: { click: () => dialog.close() } }, 'Cancel');
    const form = h('form', { on: { submit: async (event) => {
      event.preventDefault();
      submit.setAttribute('disabled', '');
      result.replaceChildren();
      try {
        const answer = await run(Object.fromEntries(new FormData(form)));
        dialog.close();
        this.#say(`Done: ${visible(title, 200)}.`);
        done?.(answer);
      } catch (error) {
        submit.removeAttribute('disabled');
        this.#failed(error, result);
      }
    } } }, h('h2', { id: 'dialog-title' }, foreign(title)), h('p', {}, says), fields, result, h('p', { class: 'buttons' }, submit, cancel));
    dialog.replaceChildren(form);
    dialog.showModal();
    (form.querySelector('input, textarea, select') ?? cancel).focus();
  }

  /** Shows something that a change has made, in the dialog. */
  show(title, ...children) {
    const dialog = this.#dialog;
    const close = h('button', { type: 'button', class: 'main', on: { click: () => dialog.close() } }, 'Close');
    dialog.replaceChildren(h('h2', { id: 'dialog-title' }, foreign(title)), ...children, h('p', { class: 'buttons' }, close));
    dialog.showModal();
    (dialog.querySelector('input') ?? close).focus();
  }

  #failed(error, place) {
    if (error.status === 403) this.role ??= 'read';
    const title = error instanceof Problem ? error.title : String(error.message);
    place.replaceChildren(h('div', { class: 'note bad' }, h('b', {}, 'Nothing was changed: ', foreign(title)),
      error.detail ? h('p', {}, foreign(error.detail)) : null,
      [404, 405].includes(error.status) ? h('p', {}, 'Perhaps this node does not offer this change here; the command line may.') : null,
      error.status === 403 ? h('p', {}, 'Your token does not permit this. Another one can be used on the page Settings.') : null));
  }

  /** The form for a token. `done` is called after a login. */
  loginForm(done) {
    const result = h('div', { role: 'alert' });
    const input = h('input', { id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', required: true, 'data-keep': 'token' });
    return h('section', { class: 'w12 login', 'data-keep': 'login' },
      h('form', { on: { submit: async (event) => {
        event.preventDefault();
        result.replaceChildren();
        try {
          await signIn(input.value.trim());
          input.value = '';
          await this.refresh();
          done();
        } catch (error) {
          const isWrong = error.status === 401;
          result.replaceChildren(h('p', { class: 'note bad' }, isWrong ? 'This token is not known to the node.' : [foreign(error.title ?? error.message), ' ', foreign(error.detail ?? '')]));
        }
      } } },
      h('p', {}, 'This node answers only with a token. Tokens are in the file that the setting ', h('code', {}, 'api.token_file'), ' names.'),
      h('label', { for: 'token' }, 'Token'), input, h('button', { type: 'submit', class: 'main' }, 'Sign in'), result,
      h('p', { class: 'dim' }, 'The token is sent once to this node. The browser keeps a cookie that no script can read.')));
  }

  async leave() {
    await signOut();
    this.role = null;
  }
}

/** A field of a dialog. */
export function field(name, label, attributes = {}) {
  const id = `field-${name}`;
  const tag = attributes.rows ? 'textarea' : 'input';
  return h('p', { class: 'field' }, h('label', { for: id }, label), h(tag, { id, name, spellcheck: 'false', autocomplete: 'off', ...attributes }));
}

/** Adds or removes an order of the stop list. */
export const stopList = {
  add: (target, reason, author) => send('POST', 'stops', { body: { stops: [{ target, reason, author }] } }),
  remove: (target) => send('DELETE', `stops/${encodeURIComponent(target)}`),
};
