/**
 * Runs each client against a vendor that fails, once directly and once through the gateway, and compares what the
 * client reports. The gateway doesn't have another model to fall back on, so the client sees the failure.
 */

import { isDeepStrictEqual } from 'node:util';
import type { ScriptedVendor } from '../support/scripted-vendor/server.ts';
import { type DriverCase, type Seen, samples, type Vendor, vendors, weather } from './cases.ts';
import type { Client } from './clients.ts';
import type { DriverLine, Target } from './run-client.ts';

interface Failure {
  /** The name of the column in docs/clients.md. */
  readonly title: string;
  /** The vendor's script; see test/support/scripted-vendor/scripts.ts. */
  readonly script: string;
  /** The cases of the driver that can make the call. We use the first one that the driver has. */
  readonly cases: readonly DriverCase[];
}

export const failures = {
  broken: { title: 'stream breaks', script: 'break-after-3', cases: ['stream'] },
  event: { title: 'error event', script: 'error-after-3', cases: ['stream'] },
  truncated: { title: 'stream ends early', script: 'end-after-3', cases: ['stream'] },
  cut: { title: 'plain response cut', script: 'break-after-1', cases: ['plain'] },
  overflow: { title: 'context overflow', script: 'window-8', cases: ['overflow', 'errors'] },
  limited: { title: '429, then success', script: 'rate-limited-once-1', cases: ['retries', 'errors'] },
  failed: { title: '500, then success', script: 'fail-once-500', cases: ['retries', 'errors'] },
  overloaded: { title: '529', script: 'fail-529', cases: ['retries', 'errors'] },
  unauthorized: { title: '401', script: 'fail-401', cases: ['retries', 'errors'] },
  silent: { title: 'no response', script: 'hang', cases: ['timeout'] },
} as const satisfies Record<string, Failure>;

export type FailureName = keyof typeof failures;
export const failureNames = Object.keys(failures) as readonly FailureName[];

/** Where the client sent its request: to the vendor, or to the gateway with a vendor of this dialect. */
export const routes = ['direct', ...vendors] as const;
export type FailureRoute = (typeof routes)[number];

export interface FailureOutcome {
  /**
   * `truncated` means that the client returned a part of the text as if it were everything. `hangs` means that it
   * neither returned nor threw.
   */
  readonly kind: 'complete' | 'truncated' | 'overflow' | 'error' | 'hangs';
  /** The class of the error that the client raised, and its HTTP status. */
  readonly error?: string;
  readonly status?: number;
  /** Number of requests that the vendor received. */
  readonly requests: number;
}

/** A failure that the client's driver doesn't support is missing. */
export type FailureOutcomes = Partial<Record<FailureName, Partial<Record<FailureRoute, FailureOutcome>>>>;

const answer = `You said: ${samples.question}`;

/** Each failure has its own provider, because we don't call a provider for a while after it has failed often. */
export function failureProviders(vendorUrl: string): string[] {
  return failureNames.flatMap((name) =>
    vendors.map((dialect) => `  ${providerOf(name, dialect)}: { base_url: ${vendorUrl}/v1, api_key: key-${dialect}, dialect: ${dialect} }`),
  );
}

function providerOf(name: FailureName, vendor: Vendor): string {
  return `${name}-${vendor}`;
}

export interface FailureTargets {
  readonly vendor: ScriptedVendor;
  readonly gateway: Target;
}

/** What a client without text does instead. */
const structuredCases: Partial<Record<DriverCase, DriverCase>> = { plain: 'structured', stream: 'partial', retries: 'structured' };

/**
 * The failures belong to the chat and messages APIs. A client that only accepts models it knows can't name the failure
 * it wants.
 */
export function hasFailures({ api, knownModels }: Client): boolean {
  return api !== 'responses' && knownModels !== true;
}

let clientsSoFar = 0;

/** `runJob` runs the client's driver; the direct job and the gateway's run at the same time. */
export async function runFailures(
  client: Client,
  { vendor, gateway }: FailureTargets,
  runJob: (job: object) => Promise<readonly DriverLine[]>,
): Promise<FailureOutcomes> {
  clientsSoFar += 1;
  const own = `failures-${process.pid}-${clientsSoFar}`;
  const runs = routes.flatMap((route) =>
    failureNames.map((name) => {
      const provider = route === 'direct' ? '' : `${providerOf(name, route)}/`;
      const calls = failures[name].cases.map((each) => {
        const chosen = (client.structuredOnly && structuredCases[each]) || each;
        // The script `fail-once-500` and the number of requests belong to a model name.
        const call = `+${own}-${name}-${route}-${chosen}`;
        return { case: chosen, call, model: `${provider}echo+${failures[name].script}${call}` };
      });
      return { route, name, calls };
    }),
  );
  const jobOf = (target: Target, chosen: typeof runs): object => ({
    ...{
      id: own,
      url: target.url,
      key: target.key,
      flavor: client.api,
      samples,
      driver: client.driver,
      concurrency: client.runtime === 'node' ? 20 : 1,
    },
    runs: chosen.flatMap(({ route, calls }) => calls.map((call) => ({ vendor: route, case: call.case, model: call.model }))),
  });
  const lines = await Promise.all([
    runJob(
      jobOf(
        { url: vendor.url, key: 'key-direct' },
        runs.filter(({ route }) => route === 'direct'),
      ),
    ),
    runJob(
      jobOf(
        gateway,
        runs.filter(({ route }) => route !== 'direct'),
      ),
    ),
  ]);
  const requested = vendor.requests().map(({ body }) => modelIn(body));
  const outcomes: Record<string, Partial<Record<FailureRoute, FailureOutcome>>> = {};
  for (const { route, name, calls } of runs) {
    const ran = calls.flatMap((call) =>
      lines
        .flat()
        .filter(({ model }) => model === call.model)
        .map(({ seen }) => ({ seen, ...call })),
    )[0];
    if (ran === undefined) continue;
    const requests = requested.filter((model) => String(model).endsWith(ran.call)).length;
    outcomes[name] = { ...outcomes[name], [route]: toOutcome(ran.seen, requests) };
  }
  return outcomes;
}

function modelIn(body: Buffer): unknown {
  return body.length === 0 ? null : JSON.parse(body.toString('utf8')).model;
}

function toOutcome({ text, value, overflow, error, hangs }: Seen, requests: number): FailureOutcome {
  if (hangs) return { kind: 'hangs', requests };
  if (overflow) return { kind: 'overflow', requests };
  if (error) return { kind: 'error', error: error.name, ...(error.status && { status: error.status }), requests };
  const isComplete = text === answer || isDeepStrictEqual(value, weather.input);
  return { kind: isComplete ? 'complete' : 'truncated', requests };
}

export type Comparison = 'same' | 'better' | 'other error' | 'worse';

const ranks: Readonly<Record<FailureOutcome['kind'], number>> = { truncated: 0, hangs: 1, error: 2, overflow: 3, complete: 4 };

/** Compares what the client reported through the gateway with what it reported directly at the vendor. */
export function compareOutcomes(direct: FailureOutcome, through: FailureOutcome): Comparison {
  // Without a request at the vendor, the client or the gateway failed for a reason of its own, which proves nothing.
  if (direct.requests === 0 || through.requests === 0) return 'worse';
  const difference = ranks[through.kind] - ranks[direct.kind];
  if (difference !== 0) return difference > 0 ? 'better' : 'worse';
  return direct.error === through.error && direct.status === through.status ? 'same' : 'other error';
}

/** Describes the failures that the client reports worse through the gateway than directly. */
export function findWorse(outcomes: FailureOutcomes): string[] {
  return failureNames.flatMap((name) => {
    const { direct, ...through } = outcomes[name] ?? {};
    if (direct === undefined) return [];
    return vendors.flatMap((vendor) => {
      const outcome = through[vendor];
      if (outcome === undefined || compareOutcomes(direct, outcome) !== 'worse') return [];
      const [before, after] = [direct, outcome].map(({ kind, requests }) => (requests === 0 ? 'no request' : kind));
      return [`${failures[name].title}, ${vendor} vendor: ${before} directly, ${after} through the gateway`];
    });
  });
}
