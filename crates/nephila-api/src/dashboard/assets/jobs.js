// Jobs: all jobs with their progress, and what can be done with them.

import { field } from './actions.js';
import { send } from './api.js';
import { foreign, h, route } from './dom.js';
import { ago, bytes, count, num } from './format.js';
import { card, heading } from './parts.js';
import { local } from './table.js';
import { jobProgress, jobState } from './overview.js';

export const title = () => 'Jobs';

/** Verbs of the API, and what the dialog says about each. */
const VERBS = {
  pause: ['Pause', 'The job fetches nothing until it is resumed. Requests that are open end; links that are found meanwhile are kept.'],
  resume: ['Resume', 'The job goes on where it was.'],
  stop: ['Stop', 'The job fetches nothing any more, and links for it are no longer kept. What it has fetched stays in the archive. It can be resumed.'],
};

/** Buttons for the changes that are possible in the state of a job. */
export function jobButtons(page, job, again) {
  const verbs = { running: ['pause', 'stop'], paused: ['resume', 'stop'], stopped: ['resume'] }[job.state] ?? [];
  return verbs.map((verb) => {
    const [label, says] = VERBS[verb];
    return [page.actions.button({ label, about: job.name, status: page.status, kind: verb === 'stop' ? 'danger' : '', title: `${label} the job ${job.name}`, says, done: again,
      run: () => send('POST', `jobs/${encodeURIComponent(job.name)}/${verb}`) }), ' '];
  });
}

/** A button that adds URLs to a job. */
export function addButton(page, job, again) {
  return page.actions.button({ label: 'Add URLs', about: job, status: page.status, title: job ? `Add URLs to the job ${job}` : 'Add URLs',
    says: 'The URLs are queued and fetched when their hosts are free, if they are in the scope of the job. URLs that are known already are not fetched again for that reason.',
    fields: [field('urls', 'URLs, one per line', { rows: 6, required: true, maxlength: 1_000_000 })],
    run: async ({ urls }) => {
      const answer = await send('POST', 'urls', { parameters: page.status?.mode === 'cluster' ? { job } : {}, body: `${urls.trim()}\n` });
      if (answer?.refused && !answer.taken) throw new Error(`all were refused. The first: ${answer.refusals?.[0]?.why ?? 'no reason given'}`);
      return answer;
    }, done: again });
}

export function open(page) {
  const state = { key: 'name', desc: false };
  let jobs = null;
  const draw = () => jobs && page.show(view(page, jobs, state, draw, again));
  const again = page.every(3, async () => {
    jobs = (await page.mode()) === 'archive' ? [] : await page.get('jobs');
    draw();
  });
}

function view(page, jobs, state, redraw, again) {
  const running = jobs.filter((job) => job.state === 'running' && !job.progress?.complete).length;
  return [
    heading('Jobs', jobs.length ? `${count(jobs.length, 'job')}, ${running} running. ${jobs.length > 1 ? 'All jobs together are exactly as polite as one.' : ''}` : '', ' ', page.actions.refusal(page.status)),
    card(12, 'All jobs', addButton(page, jobs.find((job) => job.state === 'running')?.name ?? jobs[0]?.name, again),
      local({ caption: 'Jobs', rows: jobs, state, redraw, key: (job) => job.name, none: page.status?.mode === 'archive' ? 'A finished archive has no jobs.' : ['There is no job. Start one with ', h('code', {}, 'nephila job create'), '.'], columns: [
        { key: 'name', label: 'job', sort: true, value: (job) => job.name, cell: (job) => [h('a', { href: route(`job/${encodeURIComponent(job.name)}`) }, foreign(job.name, 80)), jobProgress(job)] },
        { key: 'state', label: 'state', sort: true, value: (job) => job.state, cell: (job) => [jobState(job), job.progress?.complete ? h('div', { class: 'dim' }, ago(job.progress.complete)) : null] },
        { key: 'kind', label: 'scope', cell: (job) => foreign(job.kind ?? '–', 40) },
        { key: 'seeds', label: 'seeds', number: true, sort: true, value: (job) => job.seeds, cell: (job) => num(job.seeds) },
        { key: 'pages', label: 'pages', number: true, sort: true, value: (job) => job.progress?.pages, cell: (job) => num(job.progress?.pages, `jobs:${job.name}.pages`) },
        { key: 'left', label: 'left', number: true, sort: true, value: (job) => job.progress?.left, cell: (job) => num(job.progress?.left, `jobs:${job.name}.left`) },
        { key: 'bytes', label: 'received', number: true, sort: true, value: (job) => job.progress?.bytes, cell: (job) => bytes(job.progress?.bytes) },
        { key: 'priority', label: 'priority', number: true, sort: true, value: (job) => job.priority, cell: (job) => num(job.priority) },
        { key: 'actions', label: 'change', class: 'actions', cell: (job) => jobButtons(page, job, again) }] })),
  ];
}
