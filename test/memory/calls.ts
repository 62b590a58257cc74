/** Builds settled calls like those from the journal, and reads what the database has about their conversations. */
import { randomUUID } from 'node:crypto';
import type { AssistantTurn, CallMetadata, MemoryOptions, Outcome, Route, SettledCall } from '../../src/core/call.ts';
import { noCorrelation } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { Database } from '../../src/db/database.ts';
import { recordCalls } from '../../src/memory/conversations/record-calls.ts';
import { createMemorySettings } from '../../src/memory/records/settings.ts';

/** 2026-11-20T10:00:00Z, which is when the first call of a test starts. */
export const baseTime = Date.UTC(2026, 10, 20, 10);

/**
 * Returns the time of a call that started a minute ago, in seconds after `baseTime`, for tests in which its age
 * matters.
 */
export function aMinuteAgo(): number {
  return Math.floor((Date.now() - baseTime) / 1_000) - 60;
}

export interface CallOptions {
  readonly projectId: string;
  /** In seconds after `baseTime`. */
  readonly at?: number;
  readonly route?: Route;
  readonly source?: string;
  readonly hasExplicitSource?: boolean;
  readonly subject?: string | null;
  readonly mode?: MemoryOptions['mode'];
  readonly explicitWrite?: boolean;
  readonly isRecorded?: boolean;
  readonly outcome?: Outcome;
  readonly body?: unknown;
  readonly answer?: string | AssistantTurn | null;
}

/** Creates a successful chat call that takes a second. */
export function settledCall(options: CallOptions): SettledCall {
  const startedAt = baseTime + (options.at ?? 0) * 1_000;
  const metadata: CallMetadata = {
    id: newId(startedAt),
    startedAt,
    projectId: options.projectId,
    keyId: randomUUID(),
    keyPrefix: 'k7f3a9c2',
    source: options.source ?? 'acme',
    sourceGiven: options.hasExplicitSource ?? true,
    route: options.route ?? 'chat',
    modelAsked: 'standard',
    stream: false,
    memory: {
      ...{ mode: options.mode ?? 'write', explicitWrite: options.explicitWrite ?? false, subject: options.subject ?? null },
      ...(options.isRecorded !== undefined && { isRecorded: options.isRecorded }),
    },
    correlation: noCorrelation,
    plan: [],
    bodyBytes: 0,
  };
  const { answer = null } = options;
  return {
    metadata,
    result: {
      outcome: options.outcome ?? 'ok',
      status: 200,
      code: null,
      model: 'demo/small',
      cache: null,
      tokens: noTokens,
      costNanos: 0,
      estimated: false,
      durationMs: 1_000,
      firstByteMs: null,
      attempts: [],
    },
    content: {
      request: Buffer.from(typeof options.body === 'string' ? options.body : JSON.stringify(options.body ?? { messages: [] })),
      response: typeof answer === 'string' ? { text: answer, toolCalls: [] } : answer,
    },
  };
}

/** Builds chat messages from lines such as `u …`, `a …` and `s …`. The first letter is the role. */
export function chatBody(...lines: readonly string[]): unknown {
  return { model: 'standard', messages: lines.map((line) => ({ role: roleOf(line), content: line.slice(line.indexOf(' ') + 1) })) };
}

function roleOf(line: string): string {
  const name = line.slice(0, line.indexOf(' '));
  return { u: 'user', a: 'assistant', s: 'system' }[name] ?? name;
}

export async function createProject(database: Database): Promise<string> {
  const id = randomUUID();
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [id, `p-${id.slice(0, 8)}`]);
  return id;
}

/** Records the calls in one batch. */
export async function record(database: Database, calls: readonly SettledCall[]): Promise<void> {
  await database.transaction((tx) => recordCalls(tx, calls));
}

/** Changes memory settings like `PUT /provision/teams/{project}/memory` does. */
export async function putMemorySettings(database: Database, projectId: string, input: unknown): Promise<void> {
  // No conversation is older than time 0, so a new deletion period doesn't delete anything and takes effect
  // immediately.
  await createMemorySettings({ database, clock: { now: () => 0 } }).update(projectId, input);
}

export interface StoredConversation {
  readonly id: string;
  readonly subject: string | null;
  readonly source: string;
  readonly state: string;
  readonly opened: number;
  readonly learnable: boolean;
  readonly calls: number;
  /** Returns the text of all messages in order. Each starts with the first letter of its role. */
  readonly lines: readonly string[];
}

/** Returns the conversations of a project, oldest first. */
export async function listConversations(database: Database, projectId: string): Promise<StoredConversation[]> {
  return database.query<StoredConversation>(
    `select c.id, c.subject, c.source, c.state, c.opened, c.learnable, c.calls,
            array(select left(part.role, 1) || ' ' || (part.content ->> 'text')
                    from conversation_parts place
                    join parts part on part.project_id = c.project_id and part.hash = place.part_hash
                   where place.conversation_id = c.id
                   order by place.position) as lines
       from conversations c
      where c.project_id = $1::uuid
      order by c.started_at, c.id`,
    [projectId],
  );
}

/** Marks all conversations of a project as closed. */
export async function markAllRead(database: Database, projectId: string): Promise<void> {
  await database.query(`update conversations set state = 'read', read_at = now() where project_id = $1::uuid`, [projectId]);
}

/** Returns the workflow ids of pending outbox rows that start the idle timer of a project. */
export async function listIdleTimerStarts(database: Database, projectId: string): Promise<string[]> {
  const rows = await database.query<{ workflowId: string }>(
    `select workflow_id as "workflowId" from outbox
      where project_id = $1::uuid and workflow = 'idleConversations' order by id`,
    [projectId],
  );
  return rows.map((row) => row.workflowId);
}

/** Returns the conversation of each call. Null for calls that don't have one. */
export async function listConversationIds(database: Database, calls: readonly SettledCall[]): Promise<(string | null)[]> {
  const rows = await database.query<{ callId: string; conversationId: string | null }>(
    `select call_id as "callId", conversation_id as "conversationId" from call_texts where call_id = any($1::uuid[])`,
    [calls.map((call) => call.metadata.id)],
  );
  const filed = new Map(rows.map((row) => [row.callId, row.conversationId]));
  return calls.map((call) => filed.get(call.metadata.id) ?? null);
}
