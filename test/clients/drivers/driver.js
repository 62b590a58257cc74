/**
 * Runs the cases that a client has. As a program it is called with the name of a driver, and prints one JSON line per
 * case. The job is in the variable CLIENT_JOB: `{ id, url, key, flavor, samples, concurrency, runs: [{ vendor, case,
 * model }] }`.
 */

import { setTimeout as sleep } from 'node:timers/promises';

/**
 * A case that takes this long never ends. Old SDKs wait forever after some failures, and LangChain repeats a call for a
 * minute.
 */
const limitMs = 180_000;

/**
 * Calls `report` for each case of the job that the driver has.
 *
 * @param {string} driver
 * @param {any} job
 * @param {(line: any) => void} report
 */
export async function drive(driver, job, report) {
  const { createCases } = await import(`./${driver}`);
  const cases = await createCases(job);
  const waiting = job.runs.filter((/** @type {any} */ run) => cases[run.case] !== undefined);
  const work = async () => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) {
      const seen = await within(cases[run.case](run.model)).catch((/** @type {any} */ error) => ({ error: describe(error) }));
      report({ id: job.id, vendor: run.vendor, case: run.case, model: run.model, seen });
    }
  };
  await Promise.all(Array.from({ length: job.concurrency }, work));
}

/** @param {Promise<any>} seen */
async function within(seen) {
  const abort = new AbortController();
  const limit = sleep(limitMs, { hangs: true }, { signal: abort.signal });
  return await Promise.race([seen, limit]).finally(() => abort.abort());
}

/**
 * Frameworks put the vendor's message into a cause, or into the last error of their own retries.
 *
 * @param {any} error
 */
function describe(error) {
  const inner = [error, error.cause, error.lastError].filter(Boolean);
  const status = inner.map((each) => each.status ?? each.statusCode).find((each) => typeof each === 'number');
  return { name: error.constructor.name, status, message: inner.map((each) => `${each.message}${each.responseBody ?? ''}`).join('; ') };
}

if (import.meta.main) {
  await drive(process.argv[2] ?? '', JSON.parse(process.env['CLIENT_JOB'] ?? ''), (line) =>
    process.stdout.write(`${JSON.stringify(line)}\n`),
  );
}
