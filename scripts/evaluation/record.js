/** Stores old conversations as if their calls had been made on their dates. */
import { randomUUID } from 'node:crypto';
import { internalKeyId, noCorrelation } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { noTokens } from '../../src/core/pricing.ts';
import { recordCalls } from '../../src/memory/conversations/record-calls.ts';

/** @typedef {import('../../src/db/database.ts').Queries} Queries */
/** @typedef {{ role: 'user' | 'assistant' | 'tool', text: string, at: Date }} Message */

/**
 * The only application whose calls are recorded. Questions come from another one, so that nothing is learned from them.
 */
export const recordedSource = 'evaluation';

/**
 * Creates a project that learns from every message immediately, and returns its id.
 * @param {Queries} tx
 * @param {string} slug
 */
export async function createProject(tx, slug) {
  const id = randomUUID();
  await tx.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [id, slug]);
  await tx.query('insert into memory_settings (project_id, settings, updated_at) values ($1::uuid, $2::jsonb, now())', [
    id,
    JSON.stringify({ batch_of: 1, only_senders: [recordedSource] }),
  ]);
  return id;
}

/**
 * Stores one call per day. Its request contains the whole history up to then, and its response is the assistant's last
 * message of that day.
 * @param {Queries} tx
 * @param {{ projectId: string, subject: string, source?: string, messages: readonly Message[] }} conversation each
 * open conversation of a subject needs its own source, because otherwise they'd be treated as one
 */
export async function recordConversation(tx, { source = recordedSource, messages, ...options }) {
  const ends = messages.flatMap(({ at }, index) => (messages[index + 1]?.at.getTime() === at.getTime() ? [] : [index]));
  const calls = ends.map((end) => {
    const last = messages[end];
    const isAnswer = last?.role === 'assistant';
    return settledCall({
      ...options,
      source,
      startedAt: last?.at.getTime() ?? 0,
      request: messages.slice(0, isAnswer ? end : end + 1),
      response: isAnswer ? last.text : 'Noted.',
    });
  });
  await recordCalls(tx, calls);
}

/**
 * @param {{ projectId: string, subject: string, source: string, startedAt: number, request: readonly Message[], response: string }} call
 * @returns {import('../../src/core/call.ts').SettledCall}
 */
function settledCall({ projectId, subject, source, startedAt, request, response }) {
  return {
    metadata: {
      id: newId(startedAt),
      startedAt,
      projectId,
      keyId: internalKeyId,
      keyPrefix: 'gateway',
      source,
      sourceGiven: true,
      route: 'chat',
      modelAsked: 'recorded',
      stream: false,
      memory: { mode: 'write', explicitWrite: true, subject, isRecorded: true },
      correlation: noCorrelation,
      plan: [],
      bodyBytes: 0,
    },
    result: {
      outcome: 'ok',
      status: 200,
      code: null,
      model: 'recorded',
      cache: null,
      tokens: noTokens,
      costNanos: 0,
      estimated: false,
      durationMs: 0,
      firstByteMs: null,
      attempts: [],
    },
    content: {
      request: Buffer.from(JSON.stringify({ model: 'recorded', messages: request.map((each, index) => toChat(each, request[index + 1])) })),
      response: { text: response, toolCalls: [] },
    },
  };
}

/** @param {Message} message @param {Message | undefined} next */
function toChat({ role, text }, next) {
  if (role === 'tool') return { role, tool_call_id: 'call_1', content: text };
  if (next?.role !== 'tool') return { role, content: text };
  const call = { id: 'call_1', type: 'function', function: { name: 'lookup', arguments: '{}' } };
  return { role, content: text, tool_calls: [call] };
}
