// The live connection: server-sent events of `GET api/v1/live`, and what happens when they stop.
//
// While events come, `state` is `live`. When none came for SILENT_MS, the status is asked for instead (`polling`, also
// behind a proxy that holds events back); when that fails too, the connection is `lost`, with the time of the last
// answer. A hidden tab has no connection: browsers allow six to one server, and a forgotten tab must not take one.

import { Problem, address, get } from './api.js';

/** Events come each second. */
const SILENT_MS = 3_500;
/** How often the status is asked for while no events come. */
const POLL_MS = 1_500;
/** An archive does not change. */
const ARCHIVE_MS = 10_000;
/** How long until events are tried again, after the first, second … failure. */
const RETRY_MS = [500, 1_000, 2_000, 5_000];

export class Live extends EventTarget {
  status = null;
  state = 'connecting';
  problem = null;
  lastAt = 0;
  lostAt = 0;
  #source = null;
  #topics = 'status';
  #failures = 0;
  #retryAt = 0;
  #polledAt = 0;
  #isPolling = false;
  #openedAt = 0;

  constructor() {
    super();
    setInterval(() => this.#watch(), 500);
    this.#poll();
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#close() : this.#connect()));
    addEventListener('pagehide', () => this.#close());
    addEventListener('online', () => this.#connect());
  }

  /** Which events are wanted: `status` alone, or `status,log`. */
  want(topics) {
    const text = topics.join(',');
    if (text === this.#topics && this.#source) return;
    this.#topics = text;
    this.#connect();
  }

  /** After a login. */
  restart() {
    this.#failures = 0;
    this.#poll();
  }

  /** Age of the last numbers in seconds. */
  age() {
    return this.lastAt ? (Date.now() - this.lastAt) / 1000 : Infinity;
  }

  #connect() {
    this.#close();
    // The first status tells whether there is anything to follow, and whether a token is needed.
    if (document.hidden || !this.status || this.status.mode === 'archive') return;
    this.#openedAt = Date.now();
    // Without a log to follow there may still be a status.
    const topics = this.#failures > 1 ? 'status' : this.#topics;
    const source = new EventSource(address('live', { topics }));
    this.#source = source;
    for (const type of ['status', 'log', 'dropped']) source.addEventListener(type, (event) => this.#take(type, event.data, true));
    source.addEventListener('problem', (event) => this.#silent(event.data));
    source.onerror = () => {
      this.#close();
      this.#retryAt = Date.now() + RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)];
      this.#failures += 1;
      this.#poll();
    };
  }

  /** The node answers, and has no status: its worker waits for something. */
  #silent(text) {
    let detail = '';
    try {
      ({ detail } = JSON.parse(text));
    } catch {
      // The words are missing; the fact is not.
    }
    this.problem = new Problem(503, { title: 'the node has no status right now', detail });
    this.#become('lost');
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }

  #take(type, text, isEvent) {
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      return;
    }
    if (isEvent && type === 'status') this.#failures = 0;
    if (type === 'status') {
      this.status = value;
      this.#heard(isEvent || value.mode === 'archive' ? 'live' : 'polling');
    }
    this.dispatchEvent(new CustomEvent(type, { detail: value }));
  }

  #heard(state) {
    this.lastAt = Date.now();
    this.problem = null;
    this.#become(state);
  }

  #become(state) {
    if (state === this.state) return;
    if (state === 'lost') this.lostAt = this.lastAt || Date.now();
    this.state = state;
    this.dispatchEvent(new CustomEvent('state'));
  }

  #watch() {
    if (document.hidden) return;
    const now = Date.now();
    if (!this.#source && this.state !== 'lost' && now >= this.#retryAt) this.#connect();
    const pollMs = this.status?.mode === 'archive' && this.state === 'live' ? ARCHIVE_MS : POLL_MS;
    const isSilent = now - Math.max(this.lastAt, this.#openedAt) > SILENT_MS;
    if ((isSilent || this.state !== 'live') && now - this.#polledAt > pollMs) this.#poll();
    if (this.state === 'lost') this.dispatchEvent(new CustomEvent('tick'));
  }

  /** Asks for the status, which also tells why no events come. */
  async #poll() {
    if (this.#isPolling || (this.state === 'live' && Date.now() - this.lastAt < SILENT_MS && this.#source)) return;
    this.#isPolling = true;
    this.#polledAt = Date.now();
    try {
      const isFirst = !this.status || this.state === 'lost';
      this.#take('status', JSON.stringify(await get('status')), false);
      if (isFirst && !this.#source) this.#connect();
    } catch (error) {
      this.problem = error instanceof Problem ? error : new Problem(0, { title: String(error) });
      if (this.problem.status === 401) this.dispatchEvent(new CustomEvent('unauthorised'));
      this.#become('lost');
    } finally {
      this.#isPolling = false;
    }
  }
}
