/**
 * Runs a client's driver against a gateway with vendors for both dialects, and compares what the client saw with what
 * it should see.
 */
import { run } from '../support/run.ts';
import { type CaseName, caseNames, cases, type DriverCase, type Seen, samples, type Vendor, vendors } from './cases.ts';
import type { Client } from './clients.ts';
import { drive } from './drivers/driver.js';
import { failureProviders } from './failures.ts';
import type { Program } from './install.ts';

export interface Target {
  readonly url: string;
  readonly key: string;
}

/**
 * `ok`, `as documented: ` with the reason of an exception, or what differs. Cases that the client doesn't have are
 * missing.
 */
export type Outcomes = Readonly<Record<Vendor, Partial<Record<CaseName, string>>>>;

/** With these settings, every call reaches the vendor that it names. */
export const projectSettings = { cache: { enabled: false }, catalog_fill: false };

/** This is enough for a client that repeats each failing call several times, also on a busy machine. */
const limitMs = 1_800_000;
let clientsSoFar = 0;

/** Configures the providers `chat` and `messages` on the scripted vendor, and one for each failure. */
export function matrixYaml(vendorUrl: string, failingVendorUrl = vendorUrl): string {
  const rows = vendors.map((dialect) => `  ${dialect}: { base_url: ${vendorUrl}/v1, api_key: key-${dialect}, dialect: ${dialect} }`);
  const models = vendors.map((dialect) => `  ${dialect}/echo: { input: 1, output: 5 }`);
  const tiers = runsOf(knownModelOf).map(({ model, script, vendor }) => `  ${model}: [${vendor}/${script}+known-${vendor}]`);
  return ['providers:', ...rows, ...failureProviders(failingVendorUrl), 'models:', ...models, 'tiers:', ...new Set(tiers), ''].join('\n');
}

/**
 * Names of Anthropic models, for clients that only know these. The first one of each vendor supports structured output.
 */
const knownModels: Readonly<Record<Vendor, readonly string[]>> = {
  chat: [
    ...['claude-sonnet-4-5-20250929', 'claude-3-5-haiku-20241022', 'claude-3-7-sonnet-20250219', 'claude-opus-4-20250514'],
    ...['claude-sonnet-4-20250514', 'claude-3-haiku-20240307', 'claude-haiku-4-5', 'claude-sonnet-4-0'],
  ],
  messages: [
    ...['claude-opus-4-1-20250805', 'claude-haiku-4-5-20251001', 'claude-opus-4-6', 'claude-sonnet-4-6'],
    ...['claude-sonnet-4-5', 'claude-opus-4-5', 'claude-opus-4-1', 'claude-opus-4-0'],
  ],
};

/** Each script has a name at each vendor. */
function knownModelOf(vendor: Vendor, script: string): string {
  const scripts = [...new Set<string>(caseNames.map((name) => cases[name].script))];
  return knownModels[vendor][scripts.indexOf(script)] ?? script;
}

function runsOf(modelOf: (vendor: Vendor, script: string) => string) {
  return vendors.flatMap((vendor) =>
    caseNames.map((name) => ({ vendor, case: name, script: cases[name].script, model: modelOf(vendor, cases[name].script) })),
  );
}

export async function runClient(client: Client, program: Program, target: Target): Promise<Outcomes> {
  const [outcomes] = await runClients([client], program, target);
  return outcomes ?? { chat: {}, messages: {} };
}

/** Runs the clients of one program. `concurrency` is the number of cases that run at the same time. */
export async function runClients(
  clients: readonly Client[],
  program: Program,
  target: Target,
  { concurrency = 1 } = {},
): Promise<readonly Outcomes[]> {
  const jobs = clients.map((client) => ({ ...createJob(client, target), concurrency, driver: client.driver }));
  const lines = await runDriver(program, jobs);
  return clients.map((client, index) =>
    toOutcomes(
      client,
      lines.filter(({ id }) => id === jobs[index]?.id),
    ),
  );
}

/** Runs the driver with these jobs and returns the lines that it printed. */
export async function runDriver(program: Program, jobs: readonly object[]): Promise<readonly DriverLine[]> {
  // We only pass what the program needs, so that no setting of the machine affects a client.
  const { PATH = '', HOME = '' } = process.env;
  const given = { CLIENT_JOB: JSON.stringify(jobs[0]), ...(jobs.length > 1 && { CLIENT_JOBS: JSON.stringify(jobs) }) };
  const output = await run(program.command, program.args, { env: { PATH, HOME, ...program.env, ...given }, timeoutMs: limitMs });
  return output.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as DriverLine] : []));
}

/** Runs a client from this clone in this process, so it sees the settings of this process. */
export async function runClientHere(client: Client, target: Target, concurrency: number): Promise<Outcomes> {
  const lines: DriverLine[] = [];
  await drive(client.driver, { ...createJob(client, target), concurrency }, (line) => lines.push(line));
  return toOutcomes(client, lines);
}

function toOutcomes(client: Client, lines: readonly DriverLine[]): Outcomes {
  const outcomes: Record<Vendor, Partial<Record<CaseName, string>>> = { chat: {}, messages: {} };
  for (const { vendor, case: name, seen } of lines) {
    if (name !== 'timeout' && name !== 'partial' && vendor !== 'direct') outcomes[vendor][name] = judge(client, vendor, name, seen);
  }
  return outcomes;
}

export interface DriverLine {
  readonly id: string;
  readonly vendor: Vendor | 'direct';
  readonly case: DriverCase;
  readonly model: string;
  readonly seen: Seen;
}

function createJob(client: Client, { url, key }: Target) {
  clientsSoFar += 1;
  // Scripts such as `fail-once-500` count per model name.
  const id = `client-${process.pid}-${clientsSoFar}`;
  const ownModel = (vendor: Vendor, script: string): string =>
    `${vendor}/${script}${script === cases.retries.script ? `+${id}-${vendor}` : ''}`;
  const runs = runsOf(client.knownModels ? knownModelOf : ownModel);
  return { id, url, key, flavor: client.api, samples, runs };
}

/** The prefix of an outcome that one of the client's exceptions describes. */
const documented = 'as documented: ';

/** Reports whether the client does what docs/clients.md promises. */
export function isAsDocumented(outcome: string): boolean {
  return outcome === 'ok' || outcome.startsWith(documented);
}

/** Returns the difference for docs/clients.md. */
export function reasonOf(outcome: string): string {
  return outcome.startsWith(documented) ? outcome.slice(documented.length) : outcome;
}

function judge({ exceptions = [] }: Client, vendor: Vendor, name: CaseName, seen: Seen): string {
  const outcome = compare(name, seen);
  const exception = exceptions.find((each) => each.case === name && each.vendor === vendor);
  if (exception === undefined) return outcome;
  if (outcome === 'ok') return 'works, although an exception is documented';
  return exception.sees.test(outcome) ? documented + exception.because : outcome;
}

function compare(name: CaseName, seen: Seen): string {
  const isAboutErrors = name === 'errors' || name === 'overflow';
  if (seen.error && !isAboutErrors) return `${seen.error.name}: ${seen.error.message}`;
  try {
    cases[name].check(seen);
    return 'ok';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
