// The operator's tour: three nodes from nothing, a job, a look, two faults, and how the dashboard leads to their causes.
//
//     PATH=…(nephila, nats-server) node tour.mjs --folder DIR [--docs DIR] [--chromium PATH]
//
// Runs every command in `--folder`, looks at every page with Chromium, and fails when a page does not say what the tour says of
// it. With `--docs` it writes tour.md and screens/tour-*.png there. All traffic stays on loopback. The processes that it starts end
// with it, also when it is told to end.

import { execFile, spawn } from 'node:child_process';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { shrink } from './picture.mjs';
import { open } from './town.mjs';

const option = (name) => (process.argv.includes(`--${name}`) ? process.argv[process.argv.indexOf(`--${name}`) + 1] : undefined);
const folder = path.resolve(option('folder') ?? 'tour');
const docs = option('docs');
const PORTS = { http: 8399, dns: 7453, nats: 7422 };
const NODES = { one: 'http://127.0.0.1:7471/', two: 'http://127.0.0.1:7472/', three: 'http://127.0.0.1:7473/' };
/** `nephila` finds nephila.toml in the folder by itself, unless the environment names another. */
const ENVIRONMENT = { ...process.env, NEPHILA_CONFIG: 'nephila.toml' };
const COMMAND_MS = 60_000;
const WINDOW_MS = 8 * 60_000;
const TOUR_MS = 35 * 60_000;
/** Time until a process that was just begun has written its id, and maximum time until Chromium has ended. */
const SETTLE_MS = 500;
const CLOSE_MS = 5_000;
const ANSWER_MS = 1_000;

const SETTINGS = `[identity]
contact = "https://example.org/crawler"

[cluster]
name = "tour"
servers = ["nats://127.0.0.1:${PORTS.nats}"]
replicas = 1                              # one server here; three in earnest
partitions = 48
streams = 4

# The town: names and sites on this machine.
[spider]
dns_servers = ["127.0.0.1:${PORTS.dns}"]
ports = [80, 443, ${PORTS.http}]
allow_addresses = ["127.0.0.0/8"]
`;
const SERVERS = `server_name: one
listen: 127.0.0.1:${PORTS.nats}
jetstream { store_dir: "nats", sync_interval: always }
`;

const text = [];
const began = Date.now();
let shots = 0;
let browser = null;
let isStopping = false;
const say = (...lines) => text.push(...lines);
const tell = (words) => console.log(`${String(Math.round((Date.now() - began) / 1000)).padStart(5)} s  ${words}`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Runs a command of the page in a shell and shows it with its output. */
async function type(command, { codes = [0], lines = 14, isShown = true } = {}) {
  if (isStopping) throw new Error('the tour was told to end');
  tell(`$ ${command.split('\n')[0]}`);
  const { code, out } = await new Promise((done) => {
    execFile('bash', ['-c', command], { cwd: folder, timeout: COMMAND_MS, env: ENVIRONMENT }, (error, stdout, stderr) => done({ code: error ? error.code ?? 1 : 0, out: `${stdout}${stderr}` }));
  });
  if (!codes.includes(code)) throw new Error(`\`${command}\` ended with ${code}: ${out.slice(-800)}`);
  if (!isShown) return out;
  const shown = out.trimEnd().split('\n');
  const cut = shown.length > lines ? [...shown.slice(0, lines), '…'] : shown;
  say('', ...[`$ ${command}`, ...cut].join('\n').split('\n').map((line) => (line ? `    ${line}` : '')), '');
  return out;
}

/** Starts a process in the background as a shell does, and shows the command. */
async function begin(name, command) {
  if (isStopping) throw new Error('the tour was told to end');
  const whole = `${command} > ${name}.log 2>&1 & echo $! > ${name}.pid`;
  tell(`$ ${whole}`);
  spawn('bash', ['-c', whole], { cwd: folder, stdio: 'ignore', detached: true, env: ENVIRONMENT });
  say('', `    $ ${whole}`, '');
  await sleep(SETTLE_MS);
}

const serve = (name) => begin(name, `nephila serve --node ${name} -o data-${name} --set api.listen=${new URL(NODES[name]).host}`);

async function until(what, limit, look) {
  const end = Date.now() + limit;
  let last;
  while (Date.now() < end) {
    last = await look().catch((error) => error.message);
    if (last === true) return;
    await sleep(500);
  }
  throw new Error(`not within ${limit / 1000} s: ${what}; at the end: ${last}`);
}

const ask = async (node, operation) => {
  const answer = await fetch(new URL(`api/v1/${operation}`, NODES[node]), { signal: AbortSignal.timeout(10_000) });
  return answer.json();
};

/** Waits until the page has these words, and takes its picture. */
async function look(page, name, words, { limit = 20_000, height = 760, at } = {}) {
  await page.setViewportSize({ width: 1280, height });
  for (const word of words) await page.getByText(word).filter({ visible: true }).first().waitFor({ timeout: limit });
  await page.evaluate((selector) => (selector ? document.querySelector(selector)?.scrollIntoView({ block: 'center' }) : scrollTo(0, 0)), at);
  await sleep(700);
  shots += 1;
  const file = `tour-${shots}-${name}.png`;
  tell(`looks at ${name}`);
  await page.screenshot({ path: path.join(folder, file) });
  say('', `![${name}](screens/${file})`, '');
}

async function goTo(page, node, hash) {
  await page.goto(new URL(hash, NODES[node]).href);
  await page.waitForSelector('main h1');
}

async function tour(page, town) {
  say('# A tour of the dashboard', '',
    'An operator starts three nodes from nothing, gives them a job, meets two faults, and finds their causes on the dashboard alone.',
    'This page is written by `cargo xtask tour --write-docs`, which runs each command, opens each page in Chromium, and fails when a',
    'page does not say what stands here. Everything runs on one machine: a server, three nodes, and a town of six newspapers and',
    '600 shops on loopback addresses. [operating.md](operating.md) does the same on three machines, with keys and TLS.');

  say('', '## Three nodes', '', '`nats.conf` configures the server, `nephila.toml` all nodes:', '',
    ...SERVERS.trimEnd().split('\n').map((line) => `    ${line}`), '', '<!-- -->', '', ...SETTINGS.trimEnd().split('\n').map((line) => (line ? `    ${line}` : '')), '');
  await begin('nats', 'nats-server -c nats.conf');
  for (const name of Object.keys(NODES)) await serve(name);
  await until('the nodes share the partitions', 120_000, async () => {
    const { without_owner: none, nodes } = await ask('one', 'cluster');
    return none === 0 && nodes.length === 3 && nodes.every((node) => node.partitions > 0);
  });
  await type('nephila cluster status');
  say(`<${NODES.one}> is the dashboard of the node \`one\`; each node shows the whole cluster. The page Cluster: three nodes, each`, 'partition has an owner.');
  await goTo(page, 'one', '#/cluster');
  await look(page, 'cluster', ['3 nodes, every partition has an owner.']);

  say('## A job', '', 'The newspapers, without end, and the shops of the market.');
  await type('nephila job create news -i newspapers.txt --scope host');
  await type('nephila job create shops -i shops.txt --scope host');
  await until('pages come', 90_000, async () => (await ask('one', 'status')).done.pages > 60);
  say('The overview says in one sentence what the cluster does and what holds it back. Politeness does: that is as it should be.');
  await goTo(page, 'one', '#/');
  await look(page, 'overview', ['URLs queued', 'shops'], { height: 1000 });
  say('Limits has the stages of a page, and where hosts wait; Hosts has each host with its queue and its next request.');
  await goTo(page, 'one', '#/limits');
  await look(page, 'limits', ['What to do:', 'Where work waits']);
  say('Explain says why a URL is fetched, or why not. This one is forbidden by the newspaper\'s robots.txt:');
  await page.fill('#find-url', `${town.papers[0]}private`);
  await page.press('#find-url', 'Enter');
  await look(page, 'explain', [/robots/]);

  say('## A node dies', '', 'The overview is open; behind the operator\'s back the script kills a node:');
  await goTo(page, 'one', '#/');
  await page.waitForSelector('[data-of="status:done.pages"]');
  await type('kill -9 $(cat two.pid)', { isShown: true });
  const killed = Date.now();
  // In the list of nodes: the chart has these words too.
  await page.locator('main table').getByText('no answer').first().waitFor({ timeout: 10_000 });
  const noticed = (Date.now() - killed) / 1000;
  say(`Within ${noticed.toFixed(1)} s the overview says so, with an alarm. Pages still come: the two other nodes go on.`);
  await look(page, 'node-lost', [/alarm/, 'no answer'], { at: 'section' });
  say('Cluster shows the rest: the partitions of the dead node wait until its lease has run out (15 s), then the others own them.');
  await goTo(page, 'one', '#/cluster');
  await until('the others take over', 90_000, async () => {
    const { without_owner: none, nodes } = await ask('one', 'cluster');
    return none === 0 && nodes.length === 2;
  });
  await look(page, 'taken-over', ['2 nodes, every partition has an owner.']);
  say('Mended by the command that started it; it takes its share again.');
  await serve('two');
  await until('three nodes again', 120_000, async () => (await ask('one', 'cluster')).nodes.filter((node) => node.partitions > 0).length === 3);
  await look(page, 'three-again', ['3 nodes, every partition has an owner.']);

  say('## A market that refuses', '', 'Now the script does something to the town, and the operator has the dashboard alone. Some minutes later there is an alarm:');
  town.refuses = true;
  await goTo(page, 'one', '#/');
  await until('an alarm', WINDOW_MS, async () => (await ask('one', 'status')).alarms.some((alarm) => alarm.name === 'blocked') || JSON.stringify((await ask('one', 'status')).alarms));
  await look(page, 'alarm', [/429 or 5xx/], { height: 900 });
  say('The alarm says to find out which hosts refuse. In the chart, answers of 5xx have grown since that minute. Hosts, in the order of', 'failures in a row, shows who:');
  await goTo(page, 'one', '#/hosts?sort=errors');
  await look(page, 'hosts', ['backing off', /market\.example/]);
  const first = page.locator('main tbody th a', { hasText: 'market.example' }).first();
  const name = new URL(await first.innerText()).hostname;
  say(`All of them are shops of \`market.example\`. One of them, \`${name}\`: it answered as usual, then with 503; the crawler leaves`, 'it alone for a while.');
  await first.click();
  await look(page, 'host', [/503/, 'Last requests'], { height: 1000 });
  say('The log, only of 503, has the same site and the same addresses again and again, and no newspaper among them. So it is not our', 'line and not our name servers: the platform of the market refuses us as a whole.');
  await goTo(page, 'one', '#/log?outcome=503');
  await look(page, 'log', [/503/, /market\.example/]);
  say('## Mended', '', 'Who refuses as a whole is to be asked by mail, and left alone until they answer. On the page Politeness, “Stop a host …” takes a', 'domain, a reason and a name:');
  await goTo(page, 'one', '#/politeness');
  await page.getByRole('button', { name: 'Stop a host' }).click();
  await page.fill('#field-target', '*.market.example');
  await page.fill('#field-reason', 'they answer 503 to everything; mail of today');
  await page.fill('#field-author', 'operator');
  await look(page, 'stop', [/no node asks it/i, 'Host, domain']).catch(() => look(page, 'stop', ['Host, domain']));
  await page.locator('dialog button[type=submit]').click();
  await page.getByText('they answer 503').first().waitFor({ timeout: 10_000 });
  const before = town.requests;
  say('The newspapers go on. The alarm looks at the last five minutes, so it ends some minutes later by itself:');
  await until('the alarm ends', WINDOW_MS, async () => !(await ask('one', 'status')).alarms.length || JSON.stringify((await ask('one', 'status')).alarms));
  if (town.requests - before < 20) throw new Error(`the newspapers were asked ${town.requests - before} times`);
  await goTo(page, 'one', '#/');
  await look(page, 'mended', ['URLs queued'], { height: 1000 });
  if (await page.getByText('429 or 5xx').count()) throw new Error('the alarm is still on the page');
  const minutes = Math.round((Date.now() - began) / 60_000);
  say('## The end', '', 'The nodes hand over and end; then the server.');
  await type('kill $(cat one.pid two.pid three.pid)');
  await until('the nodes end', 60_000, async () => (await alive(['one', 'two', 'three'])).length === 0 || 'they run');
  await type('kill $(cat nats.pid)');
  return minutes;
}

/** The processes of the tour that run, by their files. */
async function alive(names) {
  const ids = await Promise.all(names.map((name) => readFile(path.join(folder, `${name}.pid`), 'utf8').then(Number, () => 0)));
  return ids.filter((id) => {
    try {
      return id && process.kill(id, 0);
    } catch {
      return false;
    }
  });
}

/** Kills the processes of the tour that run, by their ids. */
async function end() {
  for (const id of await alive(['one', 'two', 'three', 'nats'])) {
    try {
      process.kill(id, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Ends everything before its time. */
async function stop(code, why) {
  if (isStopping) return;
  isStopping = true;
  console.error(`FAIL ${why}`);
  await sleep(SETTLE_MS);
  await end();
  await Promise.race([browser?.close().catch(() => {}), sleep(CLOSE_MS)]);
  process.exit(code);
}

/** Whether somebody listens there. */
const answers = (host, port) => new Promise((done) => {
  const socket = net.connect({ host, port });
  const conclude = (is) => () => {
    socket.destroy();
    done(is);
  };
  socket.once('connect', conclude(true)).once('error', conclude(false)).setTimeout(ANSWER_MS, conclude(false));
});

// Another tour, perhaps, whose folder is in use.
for (const place of [`127.0.0.1:${PORTS.nats}`, `127.0.1.1:${PORTS.http}`, ...Object.values(NODES).map((url) => new URL(url).host)]) {
  const [host, port] = place.split(':');
  if (await answers(host, Number(port))) {
    console.error(`FAIL something listens at ${place} already, where the tour would`);
    process.exit(1);
  }
}
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => stop(1, name));
process.on('uncaughtException', (error) => stop(1, error.message));
setTimeout(() => stop(1, `not within ${TOUR_MS / 60_000} minutes`), TOUR_MS).unref();

await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
const town = await open(PORTS);
await writeFile(path.join(folder, 'nats.conf'), SERVERS);
await writeFile(path.join(folder, 'nephila.toml'), SETTINGS);
await writeFile(path.join(folder, 'newspapers.txt'), `${town.papers.join('\n')}\n`);
await writeFile(path.join(folder, 'shops.txt'), `${town.shops.join('\n')}\n`);
browser = await chromium.launch({
  executablePath: option('chromium') ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--headless', '--disable-background-networking', '--no-first-run'],
  handleSIGINT: false,
  handleSIGTERM: false,
  handleSIGHUP: false,
});
let failed = null;
try {
  const page = await browser.newPage({ colorScheme: 'light' });
  page.on('pageerror', (error) => tell(`a fault in the page: ${error.message}`));
  const minutes = await tour(page, town);
  console.log(`tour: ${shots} screens, ${minutes} minutes`);
} catch (error) {
  failed = error;
  for (const name of ['one', 'two', 'three']) console.error(`${name}: ${(await readFile(path.join(folder, `${name}.log`), 'utf8').catch(() => '')).slice(-600)}`);
} finally {
  await browser.close().catch(() => {});
  await end();
  await town.close();
}
if (failed) {
  console.error(`FAIL ${failed.message}`);
  process.exit(1);
}
if (docs) {
  const screens = path.join(docs, 'screens');
  await mkdir(screens, { recursive: true });
  for (const name of await readdir(screens)) if (name.startsWith('tour-')) await rm(path.join(screens, name));
  for (const name of (await readdir(folder)).filter((one) => /^tour-.*\.png$/.test(one))) {
    await shrink(path.join(folder, name), path.join(screens, name));
  }
  await writeFile(path.join(docs, 'tour.md'), `${text.join('\n').replace(/\n{3,}/g, '\n\n').trim()}\n`);
}
process.exit(0);
