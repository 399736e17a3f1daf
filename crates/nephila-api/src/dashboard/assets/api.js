// The API of this node, by addresses relative to this page: so a tunnel or a path prefix changes nothing.

/** A request that takes longer is given up. */
const WAIT_MS = 15_000;

/** An error answer (RFC 9457), or no answer at all (`status` 0). */
export class Problem extends Error {
  constructor(status, { title, detail, type } = {}, retryAfter) {
    super(title || `status ${status}`);
    Object.assign(this, { status, title: title || `status ${status}`, detail: detail ?? '', type: type ?? '', retryAfter });
  }

  get isLost() {
    return this.status === 0;
  }
}

/** The address of an operation, with its parameters. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return `${path.startsWith('web/') ? path : `api/v1/${path}`}${text ? `?${text}` : ''}`;
}

async function ask(path, parameters, options, signal) {
  const limit = AbortSignal.timeout(WAIT_MS);
  const signals = signal ? AbortSignal.any([signal, limit]) : limit;
  let answer;
  try {
    answer = await fetch(address(path, parameters), { credentials: 'same-origin', cache: 'no-store', redirect: 'error', ...options, signal: signals });
    const text = await answer.text();
    if (answer.ok) return { answer, text };
    throw new Problem(answer.status, parsed(text) ?? {}, Number(answer.headers.get('retry-after')) || undefined);
  } catch (error) {
    if (error instanceof Problem || signal?.aborted) throw error;
    const slow = limit.aborted;
    throw new Problem(0, {
      title: slow ? 'no answer in time' : 'no connection to the node',
      detail: slow ? `The node did not answer within ${WAIT_MS / 1000} s.` : 'Is the process running, and is the tunnel open?',
    });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The answer of `GET api/v1/PATH` as JSON. */
export async function get(path, parameters, signal) {
  const { text } = await ask(path, parameters, { headers: { accept: 'application/json' } }, signal);
  const value = parsed(text);
  if (value === null && text.trim() !== 'null') {
    throw new Problem(502, { title: 'the answer is not JSON', detail: 'Is there another server between this page and the node?' });
  }
  return value;
}

/** The answer of a list with one JSON object per line. */
export async function lines(path, parameters, signal) {
  const { text } = await ask(path, parameters, {}, signal);
  return text.split('\n').filter(Boolean).map(parsed).filter(Boolean);
}

/** Sends a change. `body` is sent as JSON; a string is sent as plain text. */
export async function send(method, path, { parameters, body } = {}) {
  const isText = typeof body === 'string';
  const headers = { accept: 'application/json', 'content-type': isText ? 'text/plain' : 'application/json', 'idempotency-key': key() };
  const { text } = await ask(path, parameters, { method, headers, body: isText ? body : JSON.stringify(body ?? {}) });
  return parsed(text);
}

/** Trades a token for a cookie that scripts cannot read. The token is kept nowhere else. */
export async function signIn(token) {
  const headers = { authorization: `Bearer ${token}` };
  const { text } = await ask('session', {}, { method: 'POST', headers });
  return parsed(text);
}

/** Ends the session. */
export const signOut = () => ask('session', {}, { method: 'DELETE' });

/** A change that is sent twice by accident is done once. */
function key() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return [...random].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
