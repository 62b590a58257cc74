/**
 * Reads and locks the conversations that the calls of a batch may join. Every lookup goes by a hash that holds project, application and
 * subject, so nothing of another one can be found. The number of statements depends only on how many messages are asked for.
 *
 * Where many conversations look the same (a thousand anonymous callers who all began with "hi"), each call needs only one of them.
 */
import type { Queries } from '../../db/database.ts';
import { batchSize, queryInBatches } from '../../db/row-batches.ts';
import { hashScope } from './chain.ts';
import { getTipKeys, getTipMessageKeys, maxComparedConversations } from './match-conversation.ts';
import { type Conversation, type ConversationWorkingSet, createConversationWorkingSet, type RecordedCall } from './working-set.ts';

/** Book with the conversations that `turns` may join; their rows are locked until the transaction ends. */
export async function loadWorkingSet(tx: Queries, calls: readonly RecordedCall[]): Promise<ConversationWorkingSet> {
  const batchTips = new Set(calls.flatMap((call) => lastHashKey(call) ?? []));
  const tips = await findTips(tx, calls, batchTips);
  const occurrences = await findOccurrences(tx, calls);
  const open = await findOpenConversations(tx, calls);
  const matchedKeys = new Set(occurrences.map((occurrence) => hashKey(occurrence.key)));
  const unmatched = calls.filter((call) => {
    if (call.firstAssistant < 0 || matchedKeys.has(lastHashKey(call) ?? '')) return false;
    return !getTipKeys(call)
      .map(hashKey)
      .some((key) => tips.has(key) || batchTips.has(key));
  });
  const trimmed = await findByTipMessage(tx, unmatched);
  const ids = new Set([...[...tips.values()].flat(), ...occurrences.map((occurrence) => occurrence.conversationId), ...open, ...trimmed]);
  const conversations = await lockConversationRows(tx, [...ids]);
  await readMessageHashes(tx, conversations, trimmed, Math.max(1, ...unmatched.map((call) => call.promptLength)));

  const workingSet = createConversationWorkingSet();
  const occurrencesByConversation = Map.groupBy(occurrences, (occurrence) => occurrence.conversationId);
  for (const conversation of conversations.values()) workingSet.add(conversation, occurrencesByConversation.get(conversation.id) ?? []);
  return workingSet;
}

interface FoundOccurrence {
  readonly key: Buffer;
  readonly conversationId: string;
  readonly position: number;
  readonly callId: string | null;
}

/** How many tips from the end of a request are asked for first: nearly always the last answer is the tip. */
const firstTips = 3;
/** Message hashes that a batch reads to compare trimmed histories. A call for which none are left opens a conversation of its own. */
const maxHashes = 200_000;

/** Ids of conversations by the name of the tip at which a call of the batch goes on. `made` are the tips that the batch itself makes. */
async function findTips(tx: Queries, calls: readonly RecordedCall[], batchTips: ReadonlySet<string>): Promise<Map<string, string[]>> {
  const keys = calls.map(getTipKeys);
  const likely = keys.map((list) => list.slice(-firstTips));
  const newest = await readTips(tx, likely.flat());
  const remaining = keys.filter((list, index) => {
    const likelyKeys = likely[index]?.map(hashKey) ?? [];
    return list.length > firstTips && !likelyKeys.some((key) => newest.has(key) || batchTips.has(key));
  });
  const older = await readTips(
    tx,
    remaining.flatMap((list) => list.slice(0, -firstTips)),
  );
  return new Map([...newest, ...older]);
}

async function readTips(tx: Queries, keys: readonly Buffer[]): Promise<Map<string, string[]>> {
  const rows = await queryInBatches<{ key: Buffer; id: string }, RequestedKey>(
    tx,
    countKeys(keys),
    `select wanted.key, found.id
       from unnest($1::bytea[], $2::integer[]) as wanted (key, copies)
      cross join lateral (
        select id from conversations
         where tip_key = wanted.key
         order by state desc, last_turn_at desc, id desc
         limit wanted.copies
      ) found`,
    toKeyColumns,
  );
  const byKey = Map.groupBy(rows, (row) => hashKey(row.key));
  return new Map([...byKey].map(([key, list]) => [key, list.map((row) => row.id)]));
}

/**
 * Messages of conversations at which a call of the batch ends: those that no recorded call has answered first, then the newest. A call
 * without history repeats nothing, so for it only the unanswered ones count.
 */
async function findOccurrences(tx: Queries, calls: readonly RecordedCall[]): Promise<FoundOccurrence[]> {
  const requested = countKeys(calls.flatMap((call) => call.scopedKeys.at(-1) ?? []));
  const repeatable = new Set(calls.flatMap((call) => (call.firstAssistant < 0 ? [] : (lastHashKey(call) ?? []))));
  return queryInBatches<FoundOccurrence, RequestedKey>(
    tx,
    requested,
    `select wanted.key, found.conversation_id as "conversationId", found.position, found.call_id as "callId"
       from unnest($1::bytea[], $2::integer[], $3::boolean[]) as wanted (key, copies, repeatable)
      cross join lateral (
        select conversation_id, position, call_id from conversation_parts
         where place_key = wanted.key
         order by call_id desc
         limit wanted.copies
      ) found
      where wanted.repeatable or found.call_id is null`,
    (slice) => [...toKeyColumns(slice), slice.map(({ key }) => repeatable.has(hashKey(key)))],
  );
}

/** Newest open conversation of each subject that calls without history. */
async function findOpenConversations(tx: Queries, calls: readonly RecordedCall[]): Promise<string[]> {
  const subjects = calls.filter((call) => call.subject !== null && call.firstAssistant < 0);
  const distinct = [...new Map(subjects.map((call) => [hashKey(call.scope), call])).values()];
  const rows = await queryInBatches<{ id: string }, RecordedCall>(
    tx,
    distinct,
    `select found.id
       from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (project_id, subject, source)
      cross join lateral (
        select id from conversations
         where project_id = wanted.project_id and subject = wanted.subject and source = wanted.source and state = 'stored'
         order by last_turn_at desc, id desc
         limit 1
      ) found`,
    (slice) => [slice.map((call) => call.projectId), slice.map((call) => call.subject), slice.map((call) => call.source)],
  );
  return rows.map((row) => row.id);
}

/** Conversations that end with a message of a call whose history as a whole is unknown: of each call those with its newest messages. */
async function findByTipMessage(tx: Queries, calls: readonly RecordedCall[]): Promise<string[]> {
  const keys = calls.map(getTipMessageKeys);
  const rows = await queryInBatches<{ key: Buffer; id: string }, RequestedKey>(
    tx,
    countKeys(keys.flat()),
    `select wanted.key, found.id
       from unnest($1::bytea[]) as wanted (key)
      cross join lateral (
        select id from conversations
         where tip_message_key = wanted.key
         order by last_turn_at desc, id desc
         limit $2::integer
      ) found`,
    (slice) => [slice.map(({ key }) => key), maxComparedConversations],
  );
  const byKey = Map.groupBy(rows, (row) => hashKey(row.key));
  const candidates = keys.map((list) => new Set(list.flatMap((key) => byKey.get(hashKey(key)) ?? []).map((row) => row.id)));
  return [...new Set(candidates.flatMap((ids) => [...ids].slice(0, maxComparedConversations)))];
}

interface ConversationRow {
  readonly id: string;
  readonly projectId: string;
  readonly source: string;
  readonly subject: string | null;
  readonly state: 'stored' | 'read';
  readonly opened: number;
  readonly learnable: boolean;
  readonly calls: number;
  readonly messages: number;
  readonly tipKey: Buffer;
  readonly tipMessageKey: Buffer;
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
}

/** In the order of ids, so that two transactions never wait for each other. */
async function lockConversationRows(tx: Queries, ids: readonly string[]): Promise<Map<string, Conversation>> {
  const rows = await queryInBatches<ConversationRow, string>(
    tx,
    ids.toSorted(),
    `select id, project_id as "projectId", source, subject, state, opened, learnable, calls, messages, tip_key as "tipKey",
            tip_message_key as "tipMessageKey", started_at as "startedAt", last_turn_at as "lastTurnAt"
       from conversations
      where id = any($1::uuid[])
      order by id
        for update`,
    (slice) => [slice],
  );
  return new Map(rows.map((row) => [row.id, toConversation(row)]));
}

function toConversation(row: ConversationRow): Conversation {
  return {
    ...row,
    scope: hashScope(row.projectId, row.source, row.subject),
    startedAt: row.startedAt.getTime(),
    lastTurnAt: row.lastTurnAt.getTime(),
    isNew: false,
    changed: false,
    needsIdleTimer: false,
    messageHashes: new Map(),
    added: [],
  };
}

/** Fills in the first and last `count` message hashes of the conversations `ids`. */
async function readMessageHashes(
  tx: Queries,
  conversations: ReadonlyMap<string, Conversation>,
  ids: readonly string[],
  count: number,
): Promise<void> {
  const read = ids.slice(0, Math.ceil(maxHashes / (2 * count)));
  // Each conversation gives up to twice `count` rows: so many at a time that a statement stays small (`slices.ts`).
  const conversationsPerBatch = Math.max(1, Math.floor(batchSize / (2 * count)));
  for (let at = 0; at < read.length; at += conversationsPerBatch) {
    const rows = await tx.query<{ conversationId: string; position: number; messageHash: Buffer }>(
      `select part.conversation_id as "conversationId", part.position, part.message_hash as "messageHash"
         from conversation_parts part
         join conversations conversation on conversation.id = part.conversation_id
        where part.conversation_id = any($1::uuid[])
          and (part.position < $2::integer or part.position >= conversation.messages - $2::integer)`,
      [read.slice(at, at + conversationsPerBatch), count],
    );
    for (const row of rows) conversations.get(row.conversationId)?.messageHashes.set(row.position, row.messageHash);
  }
}

/** A key as it is found in maps. */
function hashKey(key: Buffer): string {
  return key.toString('latin1');
}

function lastHashKey(call: RecordedCall): string | undefined {
  return call.scopedKeys.at(-1)?.toString('latin1');
}

interface RequestedKey {
  readonly key: Buffer;
  readonly copies: number;
}

/** Distinct keys, and how often each was asked for. */
function countKeys(keys: readonly Buffer[]): RequestedKey[] {
  return [...Map.groupBy(keys, hashKey).values()].flatMap(([key, ...others]) => (key ? [{ key, copies: 1 + others.length }] : []));
}

function toKeyColumns(requested: readonly RequestedKey[]): [Buffer[], number[]] {
  return [requested.map(({ key }) => key), requested.map(({ copies }) => copies)];
}
