/** Records conversations of the past in a project, with their dates, as if they had been calls of that time. */
import { randomUUID } from 'node:crypto';
import { internalKeyId, noCorrelation } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { noTokens } from '../../src/core/pricing.ts';
import { recordCalls } from '../../src/memory/conversations/record-calls.ts';

/** @typedef {import('../../src/db/database.ts').Database} Database */
/** @typedef {{ role: 'user' | 'assistant' | 'tool', text: string, at: Date }} Message */

/**
 * Creates a project whose batches start with the first message, and returns its id.
 * @param {Database} database
 * @param {string} slug
 */
export async function createProject(database, slug) {
  const id = randomUUID();
  await database.query('insert into projects (id, slug, name) values ($1::uuid, $2::text, $2::text)', [id, slug]);
  await database.query(`insert into memory_settings (project_id, settings, updated_at) values ($1::uuid, '{"batch_of": 1}', now())`, [id]);
  return id;
}

/**
 * Stores one call for each day, with its history and the assistant's last message of that day as the response.
 * @param {Database} database
 * @param {{ projectId: string, subject: string, source: string, messages: readonly Message[] }} conversation
 */
export async function recordConversation(database, { messages, ...options }) {
  const ends = messages.flatMap(({ at }, index) => (messages[index + 1]?.at.getTime() === at.getTime() ? [] : [index]));
  const calls = ends.map((end) => {
    const last = messages[end];
    const isAnswer = last?.role === 'assistant';
    return settledCall({
      ...options,
      startedAt: last?.at.getTime() ?? 0,
      request: messages.slice(0, isAnswer ? end : end + 1),
      response: isAnswer ? last.text : 'Noted.',
    });
  });
  await database.transaction((tx) => recordCalls(tx, calls));
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
