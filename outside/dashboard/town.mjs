// A small town on loopback, for the tour: names, newspapers with feeds, and a market of shops that can begin to refuse.
//
//     const town = await open({ http: 8399, dns: 7453 });      town.refuses = true      await town.close()
//
// Newspapers have pages without end, a few addresses each; the shops of the market share eight addresses.

import dgram from 'node:dgram';
import http from 'node:http';

const PAPERS = ['courier', 'gazette', 'herald', 'observer', 'tribune', 'mirror'];
const SHOPS = 600;
const SHOP_PAGES = 40;
const LINKS = 6;
const WORDS = ['harbour', 'council', 'bridge', 'market', 'school', 'weather', 'railway', 'museum', 'garden', 'concert', 'library', 'river', 'budget', 'festival', 'hospital', 'theatre'];
const STORY_MS = 20_000;

const paperName = (at) => `www.${PAPERS[at]}.example`;
const shopName = (at) => `shop${String(at).padStart(3, '0')}.market.example`;
const word = (number) => WORDS[Math.abs(number * 7 + 3) % WORDS.length];
const title = (number) => `${word(number)[0].toUpperCase()}${word(number).slice(1)} and ${word(number >> 2)}`;
const numberOf = (path) => Number(/(\d+)$/.exec(path)?.[1] ?? 0);

const paperAddress = (at) => `127.0.1.${at + 1}`;
const shopAddress = (at) => `127.0.2.${(at % 8) + 1}`;

/** The address of a name, if the town has it. */
function lookup(name) {
  const paper = PAPERS.findIndex((_, at) => paperName(at) === name);
  if (paper >= 0) return paperAddress(paper);
  const shop = /^shop(\d{3})\.market\.example$/.exec(name);
  return shop && Number(shop[1]) < SHOPS ? shopAddress(Number(shop[1])) : null;
}

/** One question in, one answer out: only A records. */
function resolve(message) {
  const labels = [];
  let at = 12;
  while (message[at]) {
    labels.push(message.toString('latin1', at + 1, at + 1 + message[at]));
    at += message[at] + 1;
  }
  const type = message.readUInt16BE(at + 1);
  const address = lookup(labels.join('.').toLowerCase());
  const head = Buffer.from(message.subarray(0, at + 5));
  head.writeUInt16BE(address ? 0x8580 : 0x8583, 2);
  const isA = address && type === 1;
  [1, isA ? 1 : 0, 0, 0].forEach((count, field) => head.writeUInt16BE(count, 4 + field * 2));
  if (!isA) return head;
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, ...address.split('.').map(Number)]);
  return Buffer.concat([head, record]);
}

function html(name, links, more = '') {
  const text = `${name}. `.repeat(40);
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${name}</title>${more}<h1>${name}</h1><p>${text}</p><ul>${links.map((link) => `<li><a href="${link}">${link}</a>`).join('')}</ul></html>`;
}

function feed(host, port) {
  const newest = Math.floor(Date.now() / STORY_MS);
  const items = Array.from({ length: 12 }, (_, at) => newest - at).map((number) => `<item><title>${title(number)}</title><link>http://${host}:${port}/story-${number}</link><guid>${number}</guid><pubDate>${new Date(number * STORY_MS).toUTCString()}</pubDate></item>`);
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>${host}</title><link>http://${host}:${port}/</link><description>News</description>${items.join('')}</channel></rss>`;
}

/** Opens the town. */
export async function open(ports) {
  const town = { refuses: false, requests: 0 };
  const answer = (request, response) => {
    const host = (request.headers.host ?? '').split(':')[0];
    const number = numberOf(request.url);
    const send = (status, type, text, more = {}) => {
      response.writeHead(status, { 'content-type': type, ...more });
      response.end(text);
    };
    town.requests += 1;
    if (request.url === '/robots.txt') return send(200, 'text/plain', 'User-agent: *\nDisallow: /private\n');
    if (host.endsWith('.market.example')) {
      if (town.refuses) return send(503, 'text/html', html('The market is closed for robots', []), { 'retry-after': '120' });
      const links = Array.from({ length: LINKS }, (_, at) => `/goods-${(number * LINKS + at + 1) % SHOP_PAGES}`);
      return send(200, 'text/html; charset=utf-8', html(`Goods ${number} of ${host.split('.')[0]}`, links));
    }
    if (request.url === '/feed.xml') return send(200, 'application/rss+xml', feed(host, ports.http));
    const links = Array.from({ length: LINKS }, (_, at) => `/story-${number * LINKS + at + 1}`);
    return send(200, 'text/html; charset=utf-8', html(title(number), [...links, '/private'], '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'));
  };
  const addresses = [...PAPERS.map((_, at) => paperAddress(at)), ...Array.from({ length: 8 }, (_, at) => shopAddress(at))];
  const servers = await Promise.all(addresses.map((address) => new Promise((done, failed) => {
    const server = http.createServer(answer);
    server.once('error', failed).listen(ports.http, address, () => done(server));
  })));
  const names = dgram.createSocket('udp4');
  names.on('message', (message, from) => names.send(resolve(message), from.port, from.address));
  await new Promise((done, failed) => names.once('error', failed).bind(ports.dns, '127.0.0.1', done));
  town.papers = PAPERS.map((_, at) => `http://${paperName(at)}:${ports.http}/`);
  town.shops = Array.from({ length: SHOPS }, (_, at) => `http://${shopName(at)}:${ports.http}/`);
  town.close = async () => {
    names.close();
    await Promise.all(servers.map((server) => new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    })));
  };
  return town;
}
