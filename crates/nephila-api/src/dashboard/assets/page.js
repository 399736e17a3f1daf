// One open page: what it asks for, what it shows, and the end of both when the reader goes elsewhere.
//
// A page is a function of its data: `show` is given the whole page each time, and changes only what differs.

import { Problem, get, lines } from './api.js';
import { h, morph } from './dom.js';
import { problemNote } from './parts.js';

export class Page {
  #main;
  #trouble;
  #end = new AbortController();
  #problems = new Map();
  #isShown = false;
  #absent = new Map();

  /** `parameters` come from the address of the page; `path` is what follows its name: `#/job/PATH`. */
  constructor({ main, trouble, live, actions, path, parameters }) {
    Object.assign(this, { live, actions, path, parameters });
    this.#main = main;
    this.#trouble = trouble;
    this.closed = this.#end.signal;
  }

  get status() {
    return this.live.status;
  }

  /** Shows these elements instead of the ones before. */
  show(...children) {
    if (this.closed.aborted) return;
    const wanted = h('main', {}, children);
    for (const { name, value } of this.#main.attributes) wanted.setAttribute(name, value);
    wanted.removeAttribute('aria-busy');
    morph(this.#main, wanted);
    this.#isShown = true;
  }

  /** Shows these elements until there is data: an error then stands alone, without “older numbers”. */
  wait(...children) {
    this.show(...children);
    this.#isShown = false;
  }

  /** `single`, `cluster` or `archive`; waits for the first status. */
  async mode() {
    return (this.status ?? (await this.get('status'))).mode;
  }

  /** The answer of the API. Ends with the page. */
  get(path, parameters) {
    return get(path, parameters, this.closed);
  }

  /** The answer of a list with one object per line. */
  lines(path, parameters) {
    return lines(path, parameters, this.closed);
  }

  /** For a part that this node may not have: `{value}` or `{problem}`. */
  async part(path, parameters) {
    if (this.#absent.has(path)) return this.#absent.get(path);
    try {
      return { value: await this.get(path, parameters) };
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status === 401 || problem.isLost) throw problem;
      // What this node does not offer is asked for once.
      if (problem.status === 404 || problem.status === 405) this.#absent.set(path, { problem });
      return { problem };
    }
  }

  /**
   * Runs `work` now and again after each `seconds`, while the page is open and visible. A failure is shown above the
   * page, with the numbers of before below it; the next success takes it away.
   */
  every(seconds, work) {
    const key = {};
    let timer;
    const run = async () => {
      clearTimeout(timer);
      if (!document.hidden) await this.#attempt(key, work);
      if (!this.closed.aborted) timer = setTimeout(run, seconds * 1000);
    };
    this.closed.addEventListener('abort', () => clearTimeout(timer));
    run();
    return run;
  }

  /** Runs `work` once, and again on request. */
  once(work) {
    const key = {};
    const run = () => this.#attempt(key, work, run);
    run();
    return run;
  }

  async #attempt(key, work, again) {
    try {
      await work();
      this.#problems.delete(key);
    } catch (error) {
      if (this.closed.aborted) return;
      if (!(error instanceof Problem)) console.error(error);
      if (error.status === 401) this.live.dispatchEvent(new CustomEvent('unauthorised'));
      this.#problems.set(key, { error, at: Date.now(), again });
    }
    if (!this.closed.aborted) this.#sayTrouble();
  }

  #sayTrouble() {
    const [first] = this.#problems.values();
    this.#trouble.hidden = !first;
    // Without a connection the shell says so, once for the whole page.
    if (!first || (first.error.isLost && this.#isShown)) {
      this.#trouble.hidden = true;
      return;
    }
    const note = problemNote(first.error, { again: first.again, hasNumbers: this.#isShown });
    // The same words again would be read out again.
    if (this.#trouble.textContent !== note.textContent) this.#trouble.replaceChildren(note);
    if (!this.#isShown) {
      this.#main.querySelector('.loading')?.remove();
      // Nothing is under way any more: a screen reader need not wait.
      this.#main.removeAttribute('aria-busy');
    }
  }

  /** Listens to live events: `status` or `log`. The last status comes at once. */
  on(type, take) {
    const listener = (event) => this.#guard(() => take(event.detail));
    this.live.addEventListener(type, listener, { signal: this.closed });
    if (type === 'status' && this.status) queueMicrotask(() => this.#guard(() => take(this.status)));
  }

  #guard(work) {
    if (this.closed.aborted) return;
    try {
      work();
    } catch (error) {
      console.error(error);
    }
  }

  /** Runs `work` when the page closes. */
  onClose(work) {
    this.closed.addEventListener('abort', work);
  }

  close() {
    this.#end.abort();
    this.#trouble.hidden = true;
    this.#trouble.replaceChildren();
  }
}
