// A site whose titles, links, redirects, feeds and robots.txt are the hostile strings of attacks.mjs, for a real crawl.
//
//     node site.mjs
//
// Answers on several loopback addresses, each a host of its own, and prints one line of JSON: `port` and `seeds`. Ends with its
// standard input.

import http from 'node:http';
import { ATTACKS } from './attacks.mjs';

/** Each is a host: hosts rest between two requests, so several bring the strings sooner. */
const ADDRESSES = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.6', '127.0.0.7', '127.0.0.8'];

const escape = (text) => text.replace(/[&<>"'\u0000-\u001f]/g, (mark) => `&#${mark.codePointAt(0)};`);

/** Strings of this host: with `ADDRESSES.length` hosts, each string is on one of them. */
const own = (address) => ATTACKS.filter((_, at) => at % ADDRESSES.length === ADDRESSES.indexOf(address));

function page(title, links) {
  const list = links.map((link) => `<li><a href="${escape(link)}">${escape(link)}</a>`).join('');
  return `<!doctype html><meta charset="utf-8"><title>${escape(title)}</title><h1>${escape(title)}</h1><ul>${list}</ul>`;
}

function feed(address, port) {
  const items = own(address).map(({ name, text }) => `<item><title>${escape(text)}</title><link>http://${address}:${port}/title/${name}</link><pubDate>${new Date().toUTCString()}</pubDate></item>`);
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>${escape(own(address)[0].text)}</title>${items.join('')}</channel></rss>`;
}

function answer(address, port, request, response) {
  const place = request.url;
  const send = (status, type, text, more = {}) => {
    response.writeHead(status, { 'content-type': type, ...more });
    response.end(text);
  };
  if (place === '/robots.txt') return send(200, 'text/plain', `User-agent: *\nDisallow: /closed/${own(address)[0].text.replace(/[\r\n]/g, '')}\nDisallow: /closed/\n`);
  if (place === '/feed.xml') return send(200, 'application/rss+xml', feed(address, port));
  if (place.startsWith('/title/')) {
    const attack = ATTACKS.find(({ name }) => place.startsWith(`/title/${name}`));
    // A server may call its content what it likes.
    return send(attack ? 200 : 404, 'text/html; charset=utf-8; x="<img class=made src=x onerror=window.__ran=1>"', page(attack?.text ?? 'nothing', []));
  }
  if (place.startsWith('/to/')) return send(302, 'text/plain', '', { location: 'javascript:window.__ran=1//x' });
  if (place !== '/') return send(404, 'text/html', page('nothing', []));
  const links = own(address).flatMap(({ name, text }) => [`/title/${name}`, `/path/${text.slice(0, 1500)}`]);
  return send(200, 'text/html; charset=utf-8', page(own(address)[0].text, ['/to/x', '/closed/x', ...links]).replace('<h1>', '<link rel="alternate" type="application/rss+xml" href="/feed.xml"><h1>'));
}

const listen = (address, port) => new Promise((done, failed) => {
  const server = http.createServer((request, response) => answer(address, server.address().port, request, response));
  server.once('error', failed).listen(port, address, () => done(server.address().port));
});

const port = await listen(ADDRESSES[0], 0);
for (const address of ADDRESSES.slice(1)) await listen(address, port);
console.log(JSON.stringify({ port, seeds: ADDRESSES.map((address) => `http://${address}:${port}/`) }));
process.stdin.on('end', () => process.exit(0)).resume();
