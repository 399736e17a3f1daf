// Pictures for the documents: small, with few colours if `pngquant` is on this machine.

import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Writes the picture of a file to another place, with at most 256 colours: about a third of the size. */
export async function shrink(from, to) {
  const isSmall = await run('pngquant', ['--force', '--quality', '55-90', '--speed', '1', '--strip', '--output', to, from]).then(() => true, () => false);
  if (!isSmall) await writeFile(to, await readFile(from));
}

/** A picture of the part of the page that is on the screen. */
export async function photograph(page, to) {
  const whole = `${to}.whole.png`;
  await page.screenshot({ path: whole });
  await shrink(whole, to);
  await rm(whole);
}
