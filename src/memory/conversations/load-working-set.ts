/**
 * Reads and locks the conversations that the calls of a batch may join. Every lookup goes by a hash that holds project, application and
 * subject, so nothing of another one can be found. The number of statements depends only on how many messages are asked for.
 *
 * Where many conversations look the same (a thousand anonymous callers who all began with "hi"), each call needs only one of them.
 */
import type { Queries } from '../../db/database.ts';
import { batchSize, queryInBatches } from '../../db/row-batches.ts';
import { hashScope } from './chain.ts';
import { comparedConversations, tipKeysOf, tipMessageKeysOf } from './match-conversation.ts';
import { type Book, type Conversation, createBook, type Turn } from './working-set.ts';

/** Book with the conversations that `turns` may join; their rows are locked until the transaction ends. */
export async function loadBook(tx: Queries, turns: readonly Turn[]): Promise<Book> {
  const made = new Set(turns.flatMap((turn) => nameOfLast(turn) ?? []));
  const tips = await findTips(tx, turns, made);
  const places = await findPlaces(tx, turns);
  const open = await findOpen(tx, turns);
  const placed = new Set(places.map((place) => nameOf(place.key)));
  const lost = turns.filter((turn) => {
    if (turn.firstAssistant < 0 || placed.has(nameOfLast(turn) ?? '')) return false;
    return !tipKeysOf(turn)
      .map(nameOf)
      .some((name) => tips.has(name) || made.has(name));
  });
  const trimmed = await findByTipMessage(tx, lost);
  const ids = new Set([...[...tips.values()].flat(), ...places.map((place) => place.conversationId), ...open, ...trimmed]);
  const conversations = await lock(tx, [...ids]);
  await readMessageHashes(tx, conversations, trimmed, Math.max(1, ...lost.map((turn) => turn.promptLength)));

  const book = createBook();
  const placesOf = Map.groupBy(places, (place) => place.conversationId);
  for (const conversation of conversations.values()) book.add(conversation, placesOf.get(conversation.id) ?? []);
  return book;
}

interface FoundPlace {
  readonly key: Buffer;
  readonly conversationId: string;
  readonly position: number;
  readonly callId: string | null;
}

/** How many tips from the end of a request are asked for first: nearly always the last answer is the tip. */
const usualTips = 3;
/** Message hashes that a batch reads to compare trimmed histories. A call for which none are left opens a conversation of its own. */
const mostHashes = 200_000;

/** Ids of conversations by the name of the tip at which a call of the batch goes on. `made` are the tips that the batch itself makes. */
async function findTips(tx: Queries, turns: readonly Turn[], made: ReadonlySet<string>): Promise<Map<string, string[]>> {
  const keys = turns.map(tipKeysOf);
  const usual = keys.map((list) => list.slice(-usualTips));
  const found = await readTips(tx, usual.flat());
  const rest = keys.filter((list, index) => {
    const names = usual[index]?.map(nameOf) ?? [];
    return list.length > usualTips && !names.some((name) => found.has(name) || made.has(name));
  });
  const older = await readTips(
    tx,
    rest.flatMap((list) => list.slice(0, -usualTips)),
  );
  return new Map([...found, ...older]);
}

async function readTips(tx: Queries, keys: readonly Buffer[]): Promise<Map<string, string[]>> {
  const rows = await queryInBatches<{ key: Buffer; id: string }, WantedKey>(
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
    columnsOf,
  );
  const byKey = Map.groupBy(rows, (row) => nameOf(row.key));
  return new Map([...byKey].map(([name, list]) => [name, list.map((row) => row.id)]));
}

/**
 * Messages of conversations at which a call of the batch ends: those that no recorded call has answered first, then the newest. A call
 * without history repeats nothing, so for it only the unanswered ones count.
 */
async function findPlaces(tx: Queries, turns: readonly Turn[]): Promise<FoundPlace[]> {
  const wanted = countKeys(turns.flatMap((turn) => turn.placeKeys.at(-1) ?? []));
  const repeatable = new Set(turns.flatMap((turn) => (turn.firstAssistant < 0 ? [] : (nameOfLast(turn) ?? []))));
  return queryInBatches<FoundPlace, WantedKey>(
    tx,
    wanted,
    `select wanted.key, found.conversation_id as "conversationId", found.position, found.call_id as "callId"
       from unnest($1::bytea[], $2::integer[], $3::boolean[]) as wanted (key, copies, repeatable)
      cross join lateral (
        select conversation_id, position, call_id from conversation_parts
         where place_key = wanted.key
         order by call_id desc
         limit wanted.copies
      ) found
      where wanted.repeatable or found.call_id is null`,
    (slice) => [...columnsOf(slice), slice.map(({ key }) => repeatable.has(nameOf(key)))],
  );
}

/** Newest open conversation of each subject that calls without history. */
async function findOpen(tx: Queries, turns: readonly Turn[]): Promise<string[]> {
  const subjects = turns.filter((turn) => turn.subject !== null && turn.firstAssistant < 0);
  const distinct = [...new Map(subjects.map((turn) => [nameOf(turn.scope), turn])).values()];
  const rows = await queryInBatches<{ id: string }, Turn>(
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
    (slice) => [slice.map((turn) => turn.projectId), slice.map((turn) => turn.subject), slice.map((turn) => turn.source)],
  );
  return rows.map((row) => row.id);
}

/** Conversations that end with a message of a call whose history as a whole is unknown: of each call those with its newest messages. */
async function findByTipMessage(tx: Queries, turns: readonly Turn[]): Promise<string[]> {
  const keys = turns.map(tipMessageKeysOf);
  const rows = await queryInBatches<{ key: Buffer; id: string }, WantedKey>(
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
    (slice) => [slice.map(({ key }) => key), comparedConversations],
  );
  const byKey = Map.groupBy(rows, (row) => nameOf(row.key));
  const candidates = keys.map((list) => new Set(list.flatMap((key) => byKey.get(nameOf(key)) ?? []).map((row) => row.id)));
  return [...new Set(candidates.flatMap((ids) => [...ids].slice(0, comparedConversations)))];
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
async function lock(tx: Queries, ids: readonly string[]): Promise<Map<string, Conversation>> {
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
    openedNow: false,
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
  const distinct = ids.slice(0, Math.ceil(mostHashes / (2 * count)));
  // Each conversation gives up to twice `count` rows: so many at a time that a statement stays small (`slices.ts`).
  const atATime = Math.max(1, Math.floor(batchSize / (2 * count)));
  for (let at = 0; at < distinct.length; at += atATime) {
    const rows = await tx.query<{ conversationId: string; position: number; messageHash: Buffer }>(
      `select part.conversation_id as "conversationId", part.position, part.message_hash as "messageHash"
         from conversation_parts part
         join conversations conversation on conversation.id = part.conversation_id
        where part.conversation_id = any($1::uuid[])
          and (part.position < $2::integer or part.position >= conversation.messages - $2::integer)`,
      [distinct.slice(at, at + atATime), count],
    );
    for (const row of rows) conversations.get(row.conversationId)?.messageHashes.set(row.position, row.messageHash);
  }
}

/** A key as it is found in maps. */
function nameOf(key: Buffer): string {
  return key.toString('latin1');
}

function nameOfLast(turn: Turn): string | undefined {
  return turn.placeKeys.at(-1)?.toString('latin1');
}

interface WantedKey {
  readonly key: Buffer;
  readonly copies: number;
}

/** Distinct keys, and how often each was asked for. */
function countKeys(keys: readonly Buffer[]): WantedKey[] {
  return [...Map.groupBy(keys, nameOf).values()].flatMap(([key, ...others]) => (key ? [{ key, copies: 1 + others.length }] : []));
}

function columnsOf(wanted: readonly WantedKey[]): [Buffer[], number[]] {
  return [wanted.map(({ key }) => key), wanted.map(({ copies }) => copies)];
}
