// Feeds: their health, how long each is silent, when and why each is polled next; the newest stories.

import { crawled, foreign, h, outside, route, visible } from './dom.js';
import { ago, count, full, lasting, num, time } from './format.js';
import { bars } from './charts.js';
import { card, empty, facts, heading, partNote, pill } from './parts.js';
import { local, table } from './table.js';

export const title = (page) => (page.parameters.url ? `Feed ${page.parameters.url}` : 'Feeds');

/** Health of a feed: shape and words. The last six are unhealthy. */
const HEALTH = {
  fine: ['good', 'fine'], learning: ['wait', 'learning its rhythm'], new: ['none', 'not polled yet'], page: ['none', 'a page with stories'], quiet: ['warn', 'quiet'],
  failing: ['bad', 'failing'], 'not-a-feed': ['bad', 'not a feed'], broken: ['bad', 'broken'], moved: ['warn', 'moved'], gone: ['off', 'gone'],
};
const ILL = ['failing', 'broken', 'not-a-feed', 'quiet', 'moved', 'gone'];
const STORIES = 200;
/** A list of many feeds is large: it is asked for seldom. */
const FEEDS_EVERY_S = 10;

export const health = (feed) => pill(...(HEALTH[feed.health] ?? ['none', visible(feed.health, 40)]));

export function open(page) {
  if (page.parameters.url) return openOne(page, page.parameters.url);
  const state = { key: 'health', from: 0, only: page.parameters.health ?? '' };
  let [said, stories] = [null, null];
  const draw = () => said && page.show(view(said, stories, state, draw));
  page.every(FEEDS_EVERY_S, async () => {
    said = (await page.mode()) === 'archive' ? { feeds: [] } : await page.get('feeds');
    draw();
  });
  page.every(FEEDS_EVERY_S, async () => {
    // Nodes of a cluster have no list of stories.
    stories = (await page.mode()) === 'cluster' ? { problem: { status: 404 } } : await page.part('stories', { max: STORIES });
    draw();
  });
}

function view(said, stories, state, redraw) {
  const { feeds } = said;
  const ill = feeds.filter((feed) => ILL.includes(feed.health)).length;
  const counts = Object.keys(HEALTH).map((name) => ({ name, count: feeds.filter((feed) => feed.health === name).length })).filter(({ count }) => count);
  const rows = feeds.filter((feed) => !state.only || feed.health === state.only);
  return [
    heading(feeds.length ? `${count(feeds.length, 'feed')}, ${ill ? `${full(ill)} with a fault` : 'all in order'}.` : 'No feed is followed.', said.cut ? 'The list is cut: there are more feeds.' : ''),
    counts.length ? card(4, 'Health', null, h('ul', { class: 'plain' }, counts.map(({ name, count: many }) =>
      h('li', {}, h('button', { type: 'button', 'aria-pressed': String(state.only === name), on: { click: () => {
        Object.assign(state, { only: state.only === name ? '' : name, from: 0 });
        redraw();
      } } }, pill(...HEALTH[name]), ` ${full(many)}`))))) : null,
    card(8, 'Stories an hour', 'the newest stories', storiesByHour(stories)),
    card(12, state.only ? `Feeds: ${HEALTH[state.only]?.[1]}` : 'All feeds', null, feedTable(rows, state, redraw)),
    card(12, 'Newest stories', null, newest(stories)),
  ];
}

function feedTable(rows, state, redraw) {
  const order = [...ILL, ...Object.keys(HEALTH).filter((name) => !ILL.includes(name))];
  return local({ caption: 'Feeds', rows, state, redraw, size: 50, key: (feed) => feed.url, none: 'There is no such feed.', columns: [
    { key: 'title', label: 'feed', sort: true, value: (feed) => feed.title || feed.url, cell: (feed) => [h('a', { href: route('feeds', { url: feed.url }) }, foreign(feed.title || feed.url, 120)), h('div', { class: 'dim' }, foreign(feed.source ?? '', 80))] },
    { key: 'health', label: 'health', sort: true, value: (feed) => order.indexOf(feed.health), cell: (feed) => [health(feed), feed.wrong ? h('div', { class: 'dim' }, foreign(feed.wrong, 200)) : null] },
    { key: 'stories', label: 'stories', number: true, sort: true, value: (feed) => feed.stories, cell: (feed) => num(feed.stories) },
    { key: 'gap', label: 'usual gap', number: true, sort: true, value: (feed) => feed.usual_gap_s, cell: (feed) => lasting(feed.usual_gap_s) },
    { key: 'silent', label: 'silent for', number: true, sort: true, value: (feed) => feed.silent_s, cell: (feed) => lasting(feed.silent_s) },
    { key: 'next', label: 'next poll', sort: true, value: (feed) => feed.next, cell: (feed) => [feed.next === 'now' ? 'now' : time(feed.next), feed.why ? h('div', { class: 'dim' }, foreign(feed.why, 200)) : null] },
    { key: 'last', label: 'last poll', cell: (feed) => lastPoll(feed.polls?.at(-1)) }] });
}

function lastPoll(poll) {
  if (!poll) return h('span', { class: 'none' }, 'never');
  return [ago(poll.at), h('div', { class: 'dim' }, poll.status ? `${poll.status}, ` : '', foreign(poll.found, 60), poll.new ? `, ${poll.new} new` : '')];
}

function storiesByHour(stories) {
  if (!stories) return h('p', { class: 'loading' }, 'Loading …');
  if (stories.problem) return partNote(stories.problem, 'the stories');
  const rows = stories.value.rows ?? [];
  const hours = new Map();
  for (const { found } of rows) hours.set(found.slice(0, 13), (hours.get(found.slice(0, 13)) ?? 0) + 1);
  if (!hours.size) return empty('No story was found yet.');
  return bars('Stories an hour', [...hours].sort().slice(-12).map(([hour, many]) => ({ label: `${hour.slice(5, 10)} ${hour.slice(11)}:00`, value: many })));
}

function newest(stories) {
  if (!stories) return h('p', { class: 'loading' }, 'Loading …');
  if (stories.problem) return partNote(stories.problem, 'the stories');
  const rows = [...(stories.value.rows ?? [])].sort((a, b) => (a.found < b.found ? 1 : -1)).slice(0, 20);
  return table({ caption: 'Newest stories', rows, key: (row) => row.url, none: 'No story was found yet.', columns: [
    { key: 'title', label: 'story', cell: (row) => crawledTitle(row) }, { key: 'source', label: 'source', cell: (row) => foreign(row.source, 80) },
    { key: 'found', label: 'found', cell: (row) => ago(row.found) }, { key: 'delay', label: 'after publication', number: true, cell: (row) => delay(row) }] });
}

const crawledTitle = (row) => [foreign(row.title || row.url, 200), row.title ? h('div', { class: 'dim' }, crawled(row.url, 160)) : null];
const delay = ({ found, published }) => (published ? lasting(Math.max(0, (Date.parse(found) - Date.parse(published)) / 1000)) : '–');

/** One feed with its last polls. */
function openOne(page, url) {
  page.every(5, async () => {
    const feed = await page.get('feed', { url });
    if (!feed) {
      page.show(heading(foreign(url, 300)), h('p', { class: 'empty w12' }, 'This feed was never polled.'));
      return;
    }
    page.show(heading([foreign(feed.title || feed.url, 200), ' ', health(feed)], foreign(feed.wrong ?? '', 300)),
      card(6, 'Feed', outside(feed.url, 'open the feed'), facts(['URL', crawled(feed.url, 400)], ['source', foreign(feed.source ?? '', 100)], ['stories', num(feed.stories)], ['usual gap', lasting(feed.usual_gap_s)],
        ['silent for', lasting(feed.silent_s)], ['next poll', feed.next === 'now' ? 'now' : time(feed.next)], ['because', foreign(feed.why ?? '', 300)])),
      card(6, 'Last polls', null, table({ caption: 'Last polls', rows: [...(feed.polls ?? [])].reverse().slice(0, 50), none: 'It was never polled.', columns: [
        { key: 'at', label: 'at', cell: (poll) => time(poll.at) }, { key: 'status', label: 'status', number: true, cell: (poll) => (poll.status ? String(poll.status) : '–') }, { key: 'found', label: 'found', cell: (poll) => foreign(poll.found, 100) },
        { key: 'entries', label: 'entries', number: true, cell: (poll) => num(poll.entries) }, { key: 'new', label: 'new', number: true, cell: (poll) => num(poll.new) }] })));
  });
}
