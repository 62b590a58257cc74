/** Calls for the tests of the journal and of usage. Their dependencies are fakes. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Attempt, CallContent, CallMetadata, CallResult, SettledCall } from '../../src/core/call.ts';
import { noCorrelation } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import type { Tokens } from '../../src/core/pricing.ts';
import type { Clock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import type { Logger } from '../../src/observability/logger.ts';

export const noon = Date.UTC(2026, 10, 20, 12);

/** A clock that only advances with `move`. */
export function clockAt(epochMs: number): Clock & { move(ms: number): void } {
  let now = epochMs;
  return {
    now: () => now,
    move(ms) {
      now += ms;
    },
  };
}

export interface LogLine {
  level: string;
  message: string;
  fields: Readonly<Record<string, unknown>>;
}

/** A logger that records its lines. */
export function keepingLogger(): Logger & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  const keep = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) => {
    lines.push({ level, message, fields });
  };
  return { lines, debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') };
}

export const attemptStart = { n: 1, provider: 'openai', model: 'gpt-4o', startedAt: noon };

export function factsOf(changes: Partial<CallMetadata> = {}): CallMetadata {
  const startedAt = changes.startedAt ?? noon;
  return {
    id: newId(startedAt),
    startedAt,
    projectId: '01900000-0000-7000-8000-000000000001',
    keyId: '01900000-0000-7000-8000-0000000000aa',
    keyPrefix: 'k7f3a9c2',
    source: 'acme',
    sourceGiven: true,
    route: 'chat',
    modelAsked: 'standard',
    stream: false,
    memory: { mode: 'write', explicitWrite: false, subject: null },
    correlation: noCorrelation,
    plan: [{ model: 'openai/gpt-4o', skipped: null }],
    bodyBytes: 1_000,
    ...changes,
  };
}

export interface CallChanges {
  metadata?: Partial<CallMetadata>;
  result?: Partial<CallResult>;
  content?: CallContent | null;
}

/** A call that cost 1,000 nano-dollars and 15 tokens. */
export function settledCall({ metadata = {}, result = {}, content = null }: CallChanges = {}): SettledCall {
  const callFacts = factsOf(metadata);
  const tokens: Tokens = result.tokens ?? { input: 10, cachedInput: 2, cacheWrite: 0, cacheWrite1h: 0, output: 3 };
  const costNanos = result.costNanos === undefined ? 1_000 : result.costNanos;
  const attempt: Attempt = {
    n: 1,
    provider: 'openai',
    model: 'gpt-4o',
    status: 200,
    outcome: 'ok',
    waitMs: 0,
    startedAt: callFacts.startedAt + 1,
    firstByteMs: 20,
    durationMs: 49,
    tokens,
    costNanos,
  };
  return {
    metadata: callFacts,
    result: {
      outcome: 'ok',
      status: 200,
      code: null,
      model: 'openai/gpt-4o',
      cache: 'miss',
      tokens,
      costNanos,
      estimated: false,
      durationMs: 50,
      firstByteMs: 21,
      attempts: [attempt],
      ...result,
    },
    content,
  };
}

export function withText(request: string, answer = 'fine'): CallContent {
  return { request: Buffer.from(request), response: { text: answer, toolCalls: [] } };
}

/** Runs `work` with an empty directory. */
export async function withFolder<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), 'gateway-journal-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A database that stores nothing. Every statement returns no rows. */
export function emptyDatabase(): Database & { fail(error: Error | null): void; transactions(): number } {
  let failure: Error | null = null;
  let transactions = 0;
  const query = async <Row>(): Promise<Row[]> => {
    if (failure) throw failure;
    return [];
  };
  return {
    kind: 'server',
    query,
    async transaction(work) {
      transactions += 1;
      if (failure) throw failure;
      return work({ query });
    },
    runWithoutTimeout: async () => {},
    listen: async () => ({ stop: async () => {} }),
    close: async () => {},
    fail(error) {
      failure = error;
    },
    transactions: () => transactions,
  };
}

export function connectionError(): Error {
  return Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
}
