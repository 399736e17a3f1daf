// Charts: over time by uPlot, the others as SVG. Each has a sentence and a table with the same numbers.
//
// Colours come from the style sheet and follow the colour scheme; areas have patterns and lines have dashes, so that a
// chart can be read without colour.

import uPlot from './uplot.js';
import { h, s, scroller } from './dom.js';
import { full, short, size, span } from './format.js';

const HEIGHT = 190;
/** Rows of the table below a chart. */
const TABLE_ROWS = 13;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [1, 4]];
const PATTERNS = ['solid', 'lines', 'dots', 'grid', 'back'];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clockOf = (t) => new Date(t * 1000).toISOString().slice(11, 16);
let made = 0;

/** `GET history`, first whole, then only what is new. */
export class History {
  points = [];
  step = 5;
  #max = 1000;

  async refresh(page) {
    const last = this.points.at(-1);
    const missing = last ? Math.min(3600, Math.ceil((Date.now() - Date.parse(last.t)) / 1000) + 30) : 3600;
    const answer = await page.get('history', { seconds: Math.max(60, missing) });
    this.step = answer.step_s || 5;
    const known = new Set(this.points.map((point) => point.t));
    const from = answer.points[0]?.t;
    // The newest point may have grown since.
    const kept = missing >= 3600 ? [] : this.points.filter((point) => point.t < from);
    this.points = [...kept, ...answer.points].slice(-this.#max);
    return answer.points.some((point) => !known.has(point.t));
  }

  get times() {
    return this.points.map((point) => Date.parse(point.t) / 1000);
  }

  /** Values of each point. */
  of(value) {
    return this.points.map((point) => value(point) ?? null);
  }
}

/** A chart over time. `series` are `{label, colour}`; `data` is `[times, values, …]` in the same order. */
export class TimeChart {
  #plot = null;
  #data = null;
  #figure;
  #canvas;
  #words;
  #rows;
  #legend;

  /** `stacked`: areas on top of each other. `log`: a logarithmic axis. `unit`: `short`, `size` or `span`. */
  constructor({ label, series, stacked = false, log = false, unit = 'short', per = '' }, page) {
    Object.assign(this, { label, series, stacked, log, per });
    this.key = `chart-${(made += 1)}`;
    this.format = { short, size, span }[unit];
    this.#canvas = h('div', { class: 'canvas', 'aria-hidden': 'true' });
    this.#words = h('p', { class: 'words' });
    this.#rows = h('div');
    this.#legend = h('ul', { class: 'legend' });
    const details = h('details', { on: { toggle: () => this.#tell() } }, h('summary', {}, 'Show as a table'), this.#rows);
    this.#figure = h('figure', { 'data-keep': this.key, role: 'group', 'aria-label': label }, this.#canvas, this.#legend, this.#words, details);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const again = () => this.#draw();
    scheme.addEventListener('change', again);
    const watcher = new ResizeObserver(() => this.#resize());
    watcher.observe(this.#canvas);
    page.onClose(() => {
      scheme.removeEventListener('change', again);
      watcher.disconnect();
      this.#plot?.destroy();
    });
  }

  /** The chart, for the page: itself the first time, later a sign that it stays where it is. */
  slot() {
    return this.#figure.isConnected ? h('figure', { 'data-keep': this.key }) : this.#figure;
  }

  set(data) {
    this.#data = data;
    if (!this.#plot) this.#draw();
    else this.#plot.setData(this.#stack());
    this.#tell();
  }

  #stack() {
    const [times, ...values] = this.#data;
    if (this.log) return [times, ...values.map((line) => line.map((value) => (value > 0 ? value : null)))];
    if (!this.stacked) return this.#data;
    const sums = [];
    const total = new Array(times.length).fill(0);
    for (const line of values) {
      line.forEach((value, index) => (total[index] += value ?? 0));
      sums.push([...total]);
    }
    return [times, ...sums];
  }

  #resize() {
    const width = this.#canvas.clientWidth;
    if (width && this.#plot && this.#plot.width !== width) this.#plot.setSize({ width, height: HEIGHT });
    else if (width && !this.#plot && this.#data) this.#draw();
  }

  #draw() {
    this.#plot?.destroy();
    this.#plot = null;
    const width = this.#canvas.clientWidth;
    if (!width || !this.#data) return;
    const [dim, line] = [css('--dim'), css('--line')];
    const axis = { stroke: dim, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    const series = this.series.map(({ label, colour }, index) => ({
      label, stroke: css(colour), width: this.stacked ? 1 : 2, points: { show: false },
      dash: this.stacked ? undefined : DASHES[index % DASHES.length],
      // The first area reaches down to the axis, the others to the area below: see `bands`.
      fill: this.stacked ? pattern(css(colour), css('--card'), PATTERNS[index % PATTERNS.length]) : undefined,
    }));
    const options = {
      width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [10, 20, 0, 0],
      series: [{}, ...series],
      bands: this.stacked ? this.series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })) : [],
      scales: { x: { time: true }, y: this.log ? { distr: 3, range: (_, low, high) => [Math.max(1, low / 2), Math.max(10, high * 2)] } : { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [
        { ...axis, size: 28, space: 70, values: (_, splits) => splits.map(clockOf) },
        { ...axis, size: 56, splits: this.log ? powers : undefined, values: (_, splits) => splits.map((value) => (value === null ? '' : this.format(value))) },
      ],
    };
    this.#plot = new uPlot(options, this.#stack(), this.#canvas);
  }

  /** The legend with the newest values, the sentence and the table. */
  #tell() {
    if (!this.#data) return;
    const [times, ...lines] = this.#data;
    const last = (line) => line.findLast((value) => value !== null);
    this.#legend.replaceChildren(...this.series.map(({ label }, index) =>
      h('li', {}, h('span', { class: `swatch s${index + 1} ${this.stacked ? PATTERNS[index % PATTERNS.length] : `dash${index + 1}`}`, 'aria-hidden': 'true' }), `${label} ${this.format(last(lines[index]))}${this.per}`)));
    this.#words.textContent = this.#sentence(times, lines);
    const isOpen = this.#rows.parentElement.open;
    this.#rows.replaceChildren(isOpen ? this.#table(times, lines) : '');
  }

  #sentence(times, lines) {
    if (!times.length) return 'There are no numbers yet.';
    const sums = this.stacked ? times.map((_, at) => lines.reduce((sum, line) => sum + (line[at] ?? 0), 0)) : lines[0].filter((value) => value !== null);
    if (!sums.length) return 'There are no numbers yet.';
    const minutes = Math.max(1, Math.round((times.at(-1) - times[0]) / 60));
    const name = this.stacked ? 'All together' : this.series[0].label;
    const text = (value) => `${this.format(value)}${this.per}`;
    return `${name}: now ${text(sums.at(-1))}, lowest ${text(Math.min(...sums))}, highest ${text(Math.max(...sums))} in the last ${minutes} min.`;
  }

  #table(times, lines) {
    const every = Math.max(1, Math.ceil(times.length / TABLE_ROWS));
    const rows = times.map((t, at) => at).filter((at) => (times.length - 1 - at) % every === 0).reverse();
    return scroller(this.label, h('table', {},
      h('caption', { class: 'hidden' }, this.label),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'time, UTC'), this.series.map(({ label }) => h('th', { scope: 'col', class: 'n' }, label)))),
      h('tbody', {}, rows.map((at) => h('tr', {}, h('th', { scope: 'row' }, clockOf(times[at])), lines.map((line) => h('td', { class: 'n' }, this.format(line[at]))))))));
  }
}

/** The powers of ten on a logarithmic axis: lines between them would only be noise. */
function powers(_, __, low, high) {
  const from = Math.ceil(Math.log10(Math.max(1, low)));
  return Array.from({ length: Math.max(1, Math.floor(Math.log10(high)) - from + 1) }, (_, at) => 10 ** (from + at));
}

/** The fill of an area: a colour with a pattern in the colour of the card. */
function pattern(colour, card, name) {
  const tile = document.createElement('canvas');
  const side = 8;
  tile.width = tile.height = side;
  const brush = tile.getContext('2d');
  brush.fillStyle = colour;
  brush.fillRect(0, 0, side, side);
  brush.strokeStyle = brush.fillStyle = card;
  brush.lineWidth = 1.6;
  const stroke = (...points) => {
    brush.beginPath();
    points.forEach(([x, y], index) => (index % 2 ? brush.lineTo(x, y) : brush.moveTo(x, y)));
    brush.stroke();
  };
  if (name === 'lines') stroke([-2, 2], [2, -2], [-2, 10], [10, -2], [6, 10], [10, 6]);
  if (name === 'back') stroke([-2, 6], [2, 10], [-2, -2], [10, 10], [6, -2], [10, 2]);
  if (name === 'dots') brush.fillRect(2, 2, 2.5, 2.5);
  if (name === 'grid') stroke([0, 4], [8, 4], [4, 0], [4, 8]);
  return brush.createPattern(tile, 'repeat');
}

/** Bars with their values as text: a list, drawn. `rows` are `{label, value, text, mark, note}`. */
export function bars(label, rows) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  return h('ul', { class: 'bars', 'aria-label': label }, rows.map((row) =>
    h('li', { class: row.mark ? 'mark' : '' },
      h('span', { class: 'name' }, row.label),
      h('span', { class: 'track', 'aria-hidden': 'true' }, h('span', { css: { '--share': row.value / most } })),
      h('span', { class: 'value' }, row.text ?? full(row.value)),
      row.note ? h('span', { class: 'note-line' }, row.note) : null)));
}

/** Parts of a whole as one bar, with a legend that has the numbers. `parts` are `{label, value}`. */
export function shares(label, parts) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  const text = (part) => `${part.label} ${short(part.value)}${total ? ` (${full((part.value / total) * 100, 0)} %)` : ''}`;
  return h('div', { class: 'shares' },
    h('div', { class: 'whole', 'aria-hidden': 'true' }, parts.map((part, index) => (part.value ? h('span', { class: `s${index + 1} ${PATTERNS[index % PATTERNS.length]}`, css: { '--share': part.value / total } }) : null))),
    h('ul', { class: 'legend', 'aria-label': label }, parts.map((part, index) =>
      h('li', { title: full(part.value) }, h('span', { class: `swatch s${index + 1} ${PATTERNS[index % PATTERNS.length]}`, 'aria-hidden': 'true' }), text(part)))));
}

/** Points in a plane, both axes logarithmic. `points` are `{x, y, label}`; at most as many as a page of a table. */
export function scatter({ label, x, y, points }) {
  const [width, height, left, bottom, top] = [620, 260, 58, 34, 28];
  const range = (values) => [0, Math.max(1, Math.ceil(Math.log10(Math.max(...values, 1) + 1)))];
  const [, right] = range(points.map((point) => point.x));
  const [, high] = range(points.map((point) => point.y));
  const px = (value) => left + (Math.log10(value + 1) / right) * (width - left - 10);
  const py = (value) => height - bottom - (Math.log10(value + 1) / high) * (height - bottom - top);
  const ticks = (most) => Array.from({ length: most + 1 }, (_, power) => power).filter((power) => most < 5 || power % 2 === 0);
  return s('svg', { viewBox: `0 0 ${width} ${height}`, class: 'plot small', role: 'img', 'aria-label': label },
    ticks(right).map((power) => [s('path', { class: 'ax', d: `M${px(10 ** power - 1)} ${top}V${height - bottom}` }), s('text', { x: px(10 ** power - 1), y: height - bottom + 14, 'text-anchor': 'middle' }, short(10 ** power - (power ? 0 : 1)))]),
    ticks(high).map((power) => [s('path', { class: 'ax', d: `M${left} ${py(10 ** power - 1)}H${width - 10}` }), s('text', { x: left - 6, y: py(10 ** power - 1) + 4, 'text-anchor': 'end' }, y.format(power ? 10 ** power : 0))]),
    s('text', { x: width - 10, y: height - 4, 'text-anchor': 'end' }, x.label), s('text', { x: 4, y: 12 }, y.label),
    points.map((point) => s('circle', { cx: px(point.x), cy: py(point.y), r: 4 }, s('title', {}, point.label))));
}
