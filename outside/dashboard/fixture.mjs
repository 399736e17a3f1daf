// A node that is none: serves the dashboard as a node does, with the answers of a made-up crawl (samples.mjs).
//
//     node fixture.mjs [--port 6399] [--mode single|cluster|archive] [--token SECRET] [--reader SECRET] [--assets DIR]
//
// Used by hand, to look at pages, and by selftest.mjs, which plants faults through `plant`.

import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { World } from './samples.mjs';

export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/** Programs that keep a copy of this folder name the files of the dashboard. */
const ASSETS = process.env.NEPHILA_DASHBOARD_ASSETS ?? fileURLToPath(new URL('../../crates/nephila-api/src/dashboard/assets/', import.meta.url));
const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', txt: 'text/plain; charset=utf-8' };
const BODY_MAX = 4 << 20;

/** Starts a server. `plant(name, text)` may change a file, `delayMs` delays every answer, `csp: false` leaves the policy out. */
export async function start({ port = 0, mode = 'single', hosts = 10_000, name, token, reader, assets = ASSETS, plant = (_, text) => text, delayMs = 0, csp = true, world = new World({ mode, hosts, name }), frozen = false, absent = [] } = {}) {
  const followers = new Set();
  const sessions = new Map();
  const server = http.createServer((request, response) => answer(request, response).catch((error) => fail(response, error.status ?? 500, error.title ?? String(error), error.detail)));
  const timer = setInterval(() => {
    const lines = world.tick();
    if (frozen) return;
    for (const { response, topics } of followers) {
      event(response, 'status', world.status());
      if (topics.includes('log')) for (const line of lines) event(response, 'log', line);
      if (topics.includes('log') && world.ticks % 60 === 0) event(response, 'dropped', { lines: 3 });
    }
  }, 1000);

  function event(response, type, data) {
    response.write(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  function role(request) {
    if (!token) return 'admin';
    const [, cookie] = /(?:^|; )nephila=(\w+)/.exec(request.headers.cookie ?? '') ?? [];
    const said = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    return sessions.get(cookie) ?? (said === token ? 'admin' : reader && said === reader ? 'read' : null);
  }

  async function answer(request, response) {
    if (delayMs) await new Promise((done) => setTimeout(done, delayMs));
    const url = new URL(request.url, 'http://x');
    const query = Object.fromEntries(url.searchParams);
    if (url.pathname === '/' || url.pathname.startsWith('/ui/')) return asset(url.pathname, response);
    if (url.pathname === '/favicon.ico') return fail(response, 404, 'not found');
    if (url.pathname.startsWith('/public/')) return publicPage(url.pathname, response);
    const who = role(request);
    if (!who) return fail(response, 401, 'no token', 'send a token');
    if (url.pathname === '/api/v1/session') return session(request, response, who);
    if (request.method !== 'GET' && who === 'read' && url.pathname !== '/api/v1/scope/test') return fail(response, 403, 'forbidden', 'this token may read only');
    if (url.pathname === '/api/v1/live' && world.mode !== 'archive') return live(request, response, query);
    const name = url.pathname.replace(/^\/api\/v1\//, '').replace(/^\//, '');
    if (absent.includes(name)) return fail(response, 404, 'not found');
    const body = request.method === 'GET' ? '' : await read(request);
    const said = route(request.method, name, query, body);
    if (said === undefined) return fail(response, 404, 'not found', url.pathname);
    const isText = typeof said === 'string';
    response.writeHead(200, { 'content-type': isText ? 'application/x-ndjson' : 'application/json', 'cache-control': 'no-store' });
    response.end(isText ? said : JSON.stringify(said));
  }

  function route(method, name, query, body) {
    const change = method !== 'GET';
    const [first, second, third] = name.split('/').map(decodeURIComponent);
    if (change && first === 'jobs' && third) {
      world.job.state = { pause: 'paused', resume: 'running', stop: 'stopped' }[third];
      return { changed: 1 };
    }
    if (method === 'PATCH' && first === 'jobs') {
      Object.assign(world.job.scope, JSON.parse(body).scope);
      return { changed: 1 };
    }
    if (method === 'POST' && name === 'scope/test') return world.scopeTest(JSON.parse(body));
    if (method === 'POST' && name === 'stops') {
      world.stops.unshift(...JSON.parse(body).stops.map((stop) => ({ ...stop, at: Date.now() })));
      return { changed: 1 };
    }
    if (method === 'DELETE' && first === 'stops') {
      world.stops = world.stops.filter((stop) => stop.target !== second);
      return { changed: 1 };
    }
    if (method === 'POST' && name === 'urls') return { taken: body.trim().split('\n').length, refused: 0, refusals: [] };
    if (method === 'POST' && name === 'links') {
      const { kind, name: of } = JSON.parse(body);
      const link = `/public/${kind}/${encodeURIComponent(kind === 'host' ? new URL(of).host : of)}?until=${Math.round(Date.now() / 1000) + 604_800}&key=${'k'.repeat(43)}`;
      return { kind, name: of, until: new Date(Date.now() + 604_800_000).toISOString(), path: link, url: new URL(link, 'http://127.0.0.1:6399').href };
    }
    if (method === 'POST' && name === 'host') return { changed: 1 };
    if (method === 'POST' && first === 'cluster' && second === 'drain') {
      world.draining.add(third);
      return { node: third, draining: true };
    }
    if (change) return undefined;
    const isCluster = world.mode === 'cluster';
    const isArchive = world.mode === 'archive';
    switch (name) {
      case 'status': return world.status();
      case 'history': return world.history(query);
      case 'hosts': return world.hostList(query);
      case 'host': return world.hostView(query.url ?? '');
      case 'host/timeline': return world.timeline();
      case 'explain': return isArchive ? undefined : world.explain(query.url ?? '');
      case 'politeness': return world.politeness();
      case 'stops': return { stops: world.stops };
      case 'jobs': return isArchive ? [] : [world.jobRow(), { id: 2, name: 'audit', state: 'paused', priority: 5, kind: 'host', seeds: 3, progress: { left: 0, pages: 120, bytes: 99_812, complete: '2026-11-18T18:00:00Z' } }];
      case 'feeds': return world.feeds();
      case 'feed': return { ...world.feeds().feeds[1], polls: Array.from({ length: 20 }, () => ({ at: '2026-11-18T20:40:00Z', status: 200, found: 'new', entries: 30, new: 2 })) };
      case 'stories': return world.stories();
      case 'archive': return world.archive();
      case 'log': return { lines: world.lines.slice(0, Number(query.limit) || 100), cursor: 'outcomes-3:1839204', complete: true, read_bytes: 40_120 };
      case 'settings': return world.settings();
      case 'spiders': return world.spiders();
      case 'cluster': return isCluster ? world.cluster() : undefined;
      case 'cluster/nodes': return isCluster ? world.clusterNodes() : undefined;
      case 'cluster/partitions': return isCluster ? world.owners : undefined;
      case 'cluster/pins': return isCluster ? [{ domain: 'big.example', node: 'n2', partition: 3, owner: 'n1' }] : undefined;
      case 'cluster/spread': return isCluster ? [{ domain: 'wiki.example', partition: 4, staying: 12, refused: false }] : undefined;
      case 'web/cdx': return world.cdx();
      case 'openapi.json': return { openapi: '3.1.0' };
      default: return first === 'jobs' && second ? { ...world.jobSaid() } : undefined;
    }
  }

  async function asset(place, response) {
    const name = place === '/' ? 'index.html' : path.basename(place);
    const text = plant(name, await readFile(path.join(assets, name), 'utf8').catch(() => {
      throw Object.assign(new Error(), { status: 404, title: 'not found' });
    }));
    const headers = { 'content-type': TYPES[name.split('.').at(-1)] ?? 'application/octet-stream', 'x-content-type-options': 'nosniff', 'cache-control': 'no-cache' };
    response.writeHead(200, csp ? { ...headers, 'content-security-policy': CSP } : headers);
    response.end(text);
  }

  function publicPage(place, response) {
    const [, first, second] = place.slice(1).split('/');
    if (first === 'ui') return asset(place, response);
    if (first !== 'v1') return asset('/public.html', response);
    const said = second === 'host' ? world.publicHost() : world.publicJob();
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify(said));
  }

  function session(request, response, who) {
    const headers = { 'content-type': 'application/json' };
    if (request.method === 'POST') {
      const id = randomBytes(16).toString('hex');
      sessions.set(id, who);
      headers['set-cookie'] = `nephila=${id}; HttpOnly; SameSite=Strict; Path=/`;
    }
    if (request.method === 'DELETE') headers['set-cookie'] = 'nephila=; Max-Age=0; Path=/';
    response.writeHead(200, headers);
    response.end(JSON.stringify(token ? { name: 'fixture', role: who, by: 'session' } : { name: '', role: 'admin', by: 'machine' }));
  }

  function live(request, response, query) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    const follower = { response, topics: (query.topics ?? 'status').split(',') };
    followers.add(follower);
    request.on('close', () => followers.delete(follower));
    event(response, 'status', world.status());
  }

  await new Promise((done) => server.listen(port, '127.0.0.1', done));
  const close = () => new Promise((done) => {
    clearInterval(timer);
    server.close(done);
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${server.address().port}/`, world, close };
}

function fail(response, status, title, detail = '') {
  if (response.headersSent) return response.end();
  response.writeHead(status, { 'content-type': 'application/problem+json' });
  response.end(JSON.stringify({ type: `about:${title.replaceAll(' ', '-')}`, title, status, detail }));
}

async function read(request) {
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > BODY_MAX) throw Object.assign(new Error(), { status: 413, title: 'too large' });
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1 || Infinity];
  const { url } = await start({ port: Number(option('port') ?? 6399), mode: option('mode'), token: option('token'), reader: option('reader'), assets: option('assets') });
  console.log(url);
}
