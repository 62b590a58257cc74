/**
 * Reads and locks the conversations that the calls of a batch may join. Every lookup key includes the project, the
 * source and the subject, so we never find a conversation in another scope. The number of statements depends on the
 * number of messages, but not on the number of conversations.
 *
 * Many conversations can end with the same message, e.g. if a thousand anonymous callers start with "hi". Each call
 * needs only one of them, so we don't load the others.
 */
import type { Queries } from '../../db/database.ts';
import { batchSize, type Column, queryInBatches, querySelected, toColumns } from '../../db/row-batches.ts';
import { hashScope, type Sha256 } from './chain.ts';
import { getTipKeys, getTipMessageKeys, maxComparedConversations } from './match-conversation.ts';
import { type Conversation, type ConversationWorkingSet, createConversationWorkingSet, type RecordedCall } from './working-set.ts';

export async function loadWorkingSet(tx: Queries, calls: readonly RecordedCall[]): Promise<ConversationWorkingSet> {
  const batchTips = new Set(calls.flatMap(({ keyAt }) => keyAt(-1) ?? []));
  const tips = await findTips(tx, calls, batchTips);
  const occurrences = await findOccurrences(tx, calls);
  const open = await findOpenConversations(tx, calls);
  const matchedKeys = new Set(occurrences.map((occurrence) => occurrence.key));
  const unmatched = calls.filter((call) => {
    if (call.firstAssistant < 0 || matchedKeys.has(call.keyAt(-1) ?? '')) return false;
    return !getTipKeys(call).some((key) => tips.has(key) || batchTips.has(key));
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
  readonly key: Sha256;
  readonly conversationId: string;
  readonly position: number;
  readonly callId: string | null;
}

/**
 * Nearly always, a call continues a conversation that ends with the last response in the request. So we first look up
 * only this many messages, counted from the end of the request, and try older ones only if none of these match.
 */
const firstTips = 3;
/**
 * To compare trimmed histories, we read at most this many message hashes per batch. Once we've reached the limit,
 * further calls start a new conversation.
 */
const maxHashes = 200_000;

/**
 * Finds conversations by their tip, i.e. by the hash of everything up to the last message. We skip the lookup if a call
 * continues one of `batchTips`, because another call of the same batch is about to create that tip.
 */
async function findTips(tx: Queries, calls: readonly RecordedCall[], batchTips: ReadonlySet<Sha256>): Promise<Map<Sha256, string[]>> {
  const likely = calls.map((call) => [...getTipKeys(call).take(firstTips)]);
  const newest = await readTips(tx, likely.flat());
  const remaining = calls.filter((_, index) => !(likely[index] ?? []).some((key) => newest.has(key) || batchTips.has(key)));
  const older = await readTips(
    tx,
    remaining.flatMap((call) => [...getTipKeys(call).drop(firstTips)]),
  );
  return new Map([...newest, ...older]);
}

async function readTips(tx: Queries, keys: readonly Sha256[]): Promise<Map<Sha256, string[]>> {
  const rows = await querySelected<{ key: Sha256; id: string }, RequestedKey>(
    tx,
    countKeys(keys),
    keyColumns,
    (requested) =>
      `select encode(requested.key, 'hex') as key, match.id
         from (${requested}) as requested
        cross join lateral (
          select id from conversations
           where tip_key = requested.key
           order by state desc, last_turn_at desc, id desc
           limit requested.copies
        ) match`,
  );
  const byKey = Map.groupBy(rows, (row) => row.key);
  return new Map([...byKey].map(([key, list]) => [key, list.map((row) => row.id)]));
}

/**
 * Finds places in stored conversations where the last message of a call occurs. We prefer messages that no call has
 * been assigned to yet, and then the newest ones. A call without history can't be a repeat of an earlier call, so for
 * such a call we only look for unassigned messages.
 */
async function findOccurrences(tx: Queries, calls: readonly RecordedCall[]): Promise<FoundOccurrence[]> {
  const requested = countKeys(calls.flatMap((call) => call.keyAt(-1) ?? []));
  const repeatable = new Set(calls.flatMap((call) => (call.firstAssistant < 0 ? [] : (call.keyAt(-1) ?? []))));
  const columns: readonly Column<RequestedKey>[] = [...keyColumns, ['repeatable', 'boolean', ({ key }) => repeatable.has(key)]];
  return querySelected<FoundOccurrence, RequestedKey>(
    tx,
    requested,
    columns,
    (select) =>
      `select encode(requested.key, 'hex') as key, match.conversation_id as "conversationId", match.position, match.call_id as "callId"
         from (${select}) as requested
        cross join lateral (
          select conversation_id, position, call_id from conversation_parts
           where place_key = requested.key
           order by call_id desc
           limit requested.copies
        ) match
        where requested.repeatable or match.call_id is null`,
  );
}

/** Finds the newest open conversation of each subject. A call that has a subject but no history joins it. */
async function findOpenConversations(tx: Queries, calls: readonly RecordedCall[]): Promise<string[]> {
  const subjects = calls.filter((call) => call.subject !== null && call.firstAssistant < 0);
  const distinct = [...new Map(subjects.map((call) => [call.scope, call])).values()];
  const rows = await queryInBatches<{ id: string }, RecordedCall>(
    tx,
    distinct,
    `select match.id
       from unnest($1::uuid[], $2::text[], $3::text[]) as requested (project_id, subject, source)
      cross join lateral (
        select id from conversations
         where project_id = requested.project_id and subject = requested.subject and source = requested.source and state = 'stored'
         order by last_turn_at desc, id desc
         limit 1
      ) match`,
    (slice) => toColumns(slice, 'projectId', 'subject', 'source'),
  );
  return rows.map((row) => row.id);
}

/**
 * Clients may trim the history, so this looks for conversations whose last message occurs anywhere in a request. If a
 * call has too many matches, we prefer those that end with one of the newest messages of the request.
 */
async function findByTipMessage(tx: Queries, calls: readonly RecordedCall[]): Promise<string[]> {
  const keys = calls.map(getTipMessageKeys);
  const rows = await queryInBatches<{ key: Sha256; id: string }, RequestedKey>(
    tx,
    countKeys(keys.flat()),
    `select requested.key, match.id
       from unnest($1::text[]) as requested (key)
      cross join lateral (
        select id from conversations
         where tip_message_key = decode(requested.key, 'hex')
         order by last_turn_at desc, id desc
         limit $2::integer
      ) match`,
    (slice) => [...toColumns(slice, 'key'), maxComparedConversations],
  );
  const byKey = Map.groupBy(rows, (row) => row.key);
  const candidates = keys.map((list) => new Set(list.flatMap((key) => byKey.get(key) ?? []).map((row) => row.id)));
  return [...new Set(candidates.flatMap((ids) => [...ids].slice(0, maxComparedConversations)))];
}

interface ConversationRow
  extends Omit<Conversation, 'scope' | 'isNew' | 'startedAt' | 'lastTurnAt' | 'messageHashes' | 'changed' | 'needsIdleTimer' | 'added'> {
  readonly startedAt: Date;
  readonly lastTurnAt: Date;
}

/** Locks the rows in the order of their ids, so that two transactions can't deadlock. */
async function lockConversationRows(tx: Queries, ids: readonly string[]): Promise<Map<string, Conversation>> {
  const rows = await queryInBatches<ConversationRow, string>(
    tx,
    ids.toSorted(),
    `select id, project_id as "projectId", source, subject, state, opened, learnable, calls, messages, encode(tip_key, 'hex') as "tipKey",
            encode(tip_message_key, 'hex') as "tipMessageKey", started_at as "startedAt", last_turn_at as "lastTurnAt"
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

async function readMessageHashes(
  tx: Queries,
  conversations: ReadonlyMap<string, Conversation>,
  ids: readonly string[],
  count: number,
): Promise<void> {
  const read = ids.slice(0, Math.ceil(maxHashes / (2 * count)));
  // We read up to `count` messages from each end of every conversation, so limit how many conversations a query reads.
  const conversationsPerBatch = Math.max(1, Math.floor(batchSize / (2 * count)));
  for (let at = 0; at < read.length; at += conversationsPerBatch) {
    const rows = await tx.query<{ conversationId: string; position: number; messageHash: Sha256 }>(
      `select part.conversation_id as "conversationId", part.position, encode(part.message_hash, 'hex') as "messageHash"
         from conversation_parts part
         join conversations conversation on conversation.id = part.conversation_id
        where part.conversation_id = any($1::uuid[])
          and (part.position < $2::integer or part.position >= conversation.messages - $2::integer)`,
      [read.slice(at, at + conversationsPerBatch), count],
    );
    for (const row of rows) conversations.get(row.conversationId)?.messageHashes.set(row.position, row.messageHash);
  }
}

interface RequestedKey {
  readonly key: Sha256;
  readonly copies: number;
}

const keyColumns: readonly Column<RequestedKey>[] = [
  ['key', 'bytea', ({ key }) => key],
  ['copies', 'integer', ({ copies }) => copies],
];

function countKeys(keys: readonly Sha256[]): RequestedKey[] {
  const counts = new Map<Sha256, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].map(([key, copies]) => ({ key, copies }));
}
