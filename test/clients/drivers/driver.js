/**
 * Runs the cases that a client has, and prints one JSON line per case. The job is in the variable CLIENT_JOB:
 * `{ url, key, flavor, samples, runs: [{ vendor, case, model }] }`.
 */

export function readJob() {
  return JSON.parse(process.env['CLIENT_JOB'] ?? '');
}

/** @param {(job: any) => Record<string, (model: string) => Promise<object>>} createCases */
export async function drive(createCases) {
  const job = readJob();
  const cases = createCases(job);
  for (const { vendor, case: name, model } of job.runs) {
    const run = cases[name];
    if (run === undefined) continue;
    const seen = await run(model).catch((error) => ({ error: describe(error) }));
    process.stdout.write(`${JSON.stringify({ vendor, case: name, seen })}\n`);
  }
}

/** Frameworks put the vendor's message into a cause, or into the last error of their own retries. */
function describe(error) {
  const inner = [error, error.cause, error.lastError].filter(Boolean);
  return { name: error.constructor.name, message: inner.map((each) => `${each.message}${each.responseBody ?? ''}`).join('; ') };
}

/** What the tools of the cases return. */
export const toolResults = { get_weather: 'sunny', get_time: 'noon' };
