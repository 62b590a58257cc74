/** Runs learning without Temporal, using a scripted memory model. The steps are called like the workflows do. */
import { expect } from '@jest/globals';
import { createLearning } from '../../src/app/learning.ts';
import { systemClock } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import type { MemoryCall, MemoryResponse } from '../../src/memory/learning/learn-group.ts';
import { createTestLog, type LogLine } from '../support/temporal.ts';
import { chatBody, record, settledCall } from './calls.ts';

export const retry = { initialMs: 60_000, factor: 2, maxMs: 600_000 };

type Reply = MemoryResponse | string | object;

export interface TestLearning extends ReturnType<typeof createLearning> {
  /** All requests so far. */
  readonly requests: readonly MemoryCall[];
  readonly lines: readonly LogLine[];
  hasRoute: boolean;
  /** The scripted response. By default, nothing is learned. */
  respond: (call: MemoryCall) => Reply | Promise<Reply>;
  /** Runs each open group of a project until it's settled or has to wait. Returns the waits. */
  runBatches(projectId: string, runId?: string): Promise<number[]>;
}

export function createTestLearning(database: Database): TestLearning {
  const requests: MemoryCall[] = [];
  const { logger, lines } = createTestLog();
  const learning: TestLearning = {
    ...createLearning({
      database,
      clock: systemClock,
      retry: () => retry,
      uiUrl: async () => null,
      logger,
      model: {
        hasRoute: async () => learning.hasRoute,
        async complete(call) {
          requests.push(call);
          const reply = await learning.respond(call);
          if (typeof reply === 'string') return { kind: 'response', text: reply };
          return 'kind' in reply ? (reply as MemoryResponse) : { kind: 'response', text: JSON.stringify(reply) };
        },
      },
    }),
    requests,
    lines,
    hasRoute: true,
    respond: ({ job }) => (job === 'extract' ? { memories: [] } : { merges: [], facts: [], page: '' }),
    async runBatches(projectId, runId = 'run-1') {
      const batches = await database.query<{ id: string }>(
        `select id from memory_batches where project_id = $1::uuid and state = 'running' order by id`,
        [projectId],
      );
      const waits: number[] = [];
      const { openBatch, learnGroup, consolidateGroup, finishBatch } = learning.activities;
      const { signal } = new AbortController();
      for (const { id: batchId } of batches) {
        for (const { position } of (await openBatch({ batchId, runId })).groups) {
          for (const step of [learnGroup, consolidateGroup]) {
            const result = await step({ batchId, position, runId }, signal);
            if (result.kind === 'wait') waits.push(result.waitMs);
          }
        }
        await finishBatch({ batchId, runId });
      }
      return waits;
    },
  };
  return learning;
}

export const memory = (text: string, evidence = text) => ({ text, names: [], kind: 'fact', importance: 3, evidence });

/** Learns every message of the user. */
export function learnEveryMessage({ job, text }: MemoryCall): object {
  if (job === 'consolidate') return { merges: [], facts: [], page: '' };
  const { conversations } = JSON.parse(text) as { conversations: { messages: { role: string; text: string }[] }[] };
  const said = conversations.flatMap(({ messages }) => messages.filter(({ role }) => role === 'user').map((message) => message.text));
  return { memories: said.map((text) => memory(text)) };
}

let startedAt = 0;

/** Stores a closed conversation with one turn for each text. The response is always `Noted.` */
export async function storeReadConversation(
  database: Database,
  { projectId, subject = null, texts, at }: { projectId: string; subject?: string | null; texts: readonly string[]; at?: number },
): Promise<string> {
  const lines: string[] = [];
  startedAt += 100;
  const first = at ?? startedAt;
  for (const [turn, text] of texts.entries()) {
    lines.push(`u ${text}`);
    await record(database, [settledCall({ projectId, subject, at: first + turn * 2, body: chatBody(...lines), answer: 'Noted.' })]);
    lines.push('a Noted.');
  }
  const [row] = await database.query<{ id: string }>(
    `update conversations set state = 'read', read_at = now()
      where project_id = $1::uuid and subject is not distinct from $2::text and state = 'stored'
     returning id`,
    [projectId, subject],
  );
  expect(row).toBeDefined();
  return row?.id ?? '';
}

export interface StoredItem {
  readonly id: string;
  readonly text: string;
  readonly subject: string | null;
  readonly origin: string;
  readonly evidence: string | null;
  readonly state: string;
  readonly supersededBy: string | null;
}

export async function listItems(database: Database, projectId: string): Promise<StoredItem[]> {
  return database.query<StoredItem>(
    `select id, text, subject, origin, evidence, state, superseded_by as "supersededBy"
       from memory_items where project_id = $1::uuid order by created_at, text`,
    [projectId],
  );
}

/** Returns the rows of a project's groups. */
export async function listGroups(database: Database, projectId: string): Promise<Record<string, unknown>[]> {
  return database.query(
    `select subject, state, messages, attempts, failures, unusable, error, written, repeated, dropped, merged, facts
       from memory_batch_groups where project_id = $1::uuid order by batch_id, position`,
    [projectId],
  );
}
