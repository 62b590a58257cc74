/** Stores the prompt and response of every call: messages as parts shared within the project, everything else with the call. */
import { toArrayLiteral } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { queryInBatches, toBatches } from '../../db/row-batches.ts';
import type { PositionedExtra } from '../../dialects/prompt/prompt.ts';
import type { ChainPart, Sha256 } from './chain.ts';

export interface CallText {
  readonly callId: string;
  readonly projectId: string;
  readonly subject: string | null;
  readonly startedAt: number;
  readonly extras: readonly PositionedExtra[];
  /** Messages of the request, then the response when there is one. */
  readonly parts: readonly ChainPart[];
  readonly promptLength: number;
  /** Ids of the memory items that recall inserted into the prompt. */
  readonly recalled: readonly string[];
}

/** The ids in `callIds` whose text is already stored. */
export async function findStoredCallIds(tx: Queries, callIds: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ callId: string }>(`select call_id as "callId" from call_texts where call_id = any($1::uuid[])`, [callIds]);
  return new Set(rows.map((row) => row.callId));
}

/** Stores `texts`; `conversationIds` maps recorded calls to their conversation. */
export async function storeTexts(tx: Queries, texts: readonly CallText[], conversationIds: ReadonlyMap<string, string>): Promise<void> {
  await storeParts(tx, texts);
  for (const slice of toBatches(texts, countExtraCharacters)) {
    await tx.query(
      `insert into call_texts (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)
       select call_id, project_id, conversation_id, subject, extras, decode(last_hash, 'hex'), answered, created_at, recalled_items::uuid[]
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::jsonb[], $6::text[], $7::boolean[], $8::timestamptz[], $9::text[])
           as text (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)`,
      [
        toArrayLiteral(slice, ({ callId }) => callId),
        toArrayLiteral(slice, ({ projectId }) => projectId),
        toArrayLiteral(slice, ({ callId }) => conversationIds.get(callId) ?? null),
        toArrayLiteral(slice, ({ subject }) => subject),
        toArrayLiteral(slice, ({ extras }) => (extras.length === 0 ? '[]' : JSON.stringify(extras))),
        toArrayLiteral(slice, ({ parts }) => parts.at(-1)?.hash ?? null),
        toArrayLiteral(slice, ({ parts, promptLength }) => parts.length > promptLength),
        toArrayLiteral(slice, ({ startedAt }) => new Date(startedAt).toISOString()),
        toArrayLiteral(slice, ({ recalled }) => `{${recalled.join(',')}}`),
      ],
    );
  }
}

function countExtraCharacters({ extras }: CallText): number {
  return extras.reduce((sum, extra) => sum + (extra.kind === 'binary' ? 0 : extra.text.length), 0);
}

interface NewPart {
  /** Project and hash. */
  readonly key: string;
  readonly projectId: string;
  readonly part: ChainPart;
  readonly createdAt: number;
}

type PartsByKey = Map<string, NewPart>;

/** A longer message is sent only after a lookup: a repeated document costs more than the lookup. */
const maxUncheckedLength = 4_096;
/** Per prompt: a history may consist of messages of the user only. */
const maxUnchecked = 4;

/**
 * Stores the parts that are missing. What follows the last response of a history is mostly new, so it is sent at once; what precedes it is
 * mostly stored. A stored part implies its predecessors, so the lookup of that response is usually the only one for a history of forty.
 */
async function storeParts(tx: Queries, texts: readonly CallText[]): Promise<void> {
  const ends: PartsByKey = new Map();
  const checked: PartsByKey = new Map();
  const histories = new Map<string, readonly NewPart[]>();
  for (const { projectId, parts, promptLength, startedAt } of texts) {
    const newParts = parts.map((part) => ({ key: toKey(projectId, part.hash), projectId, part, createdAt: startedAt }));
    const lastResponse = parts.slice(0, promptLength).findLastIndex(({ message }) => message.role === 'assistant');
    const historyLength = Math.max(lastResponse + 1, promptLength - maxUnchecked);
    for (const part of newParts.slice(historyLength)) addOnce(countCharacters(part) > maxUncheckedLength ? checked : ends, part);
    const last = newParts[historyLength - 1];
    if (last && !histories.has(last.key)) histories.set(last.key, newParts.slice(0, historyLength));
  }
  // Another call of the batch stores the end of such a history, and with it all before.
  for (const key of histories.keys()) if (ends.has(key) || checked.has(key)) histories.delete(key);
  for (const history of histories.values()) for (const part of history.slice(-1)) addOnce(checked, part);
  const stored = await findParts(tx, [...checked.values()]);
  const unknown: PartsByKey = new Map();
  for (const [key, history] of histories) if (!stored.has(key)) for (const part of history.slice(0, -1)) addOnce(unknown, part);
  const storedBefore = await findParts(tx, [...unknown.values()]);
  const added = new Map([...unknown, ...checked, ...ends]);
  for (const key of [...stored, ...storedBefore]) added.delete(key);
  await insertParts(tx, [...added.values()]);
}

function addOnce(parts: PartsByKey, part: NewPart): void {
  if (!parts.has(part.key)) parts.set(part.key, part);
}

function toKey(projectId: string, hash: Sha256): string {
  return `${projectId} ${hash}`;
}

async function insertParts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  for (const slice of toBatches(parts, countCharacters)) {
    await tx.query(
      `insert into parts (project_id, hash, parent_hash, role, content, created_at)
       select project_id, decode(hash, 'hex'), decode(parent_hash, 'hex'), role,
              jsonb_build_object('text', text, 'tool_calls', tool_calls), created_at
         from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::timestamptz[])
           as new (project_id, hash, parent_hash, role, text, tool_calls, created_at)
       on conflict (project_id, hash) do nothing`,
      [
        toArrayLiteral(slice, ({ projectId }) => projectId),
        toArrayLiteral(slice, ({ part }) => part.hash),
        toArrayLiteral(slice, ({ part }) => part.parentHash),
        toArrayLiteral(slice, ({ part }) => part.message.role),
        toArrayLiteral(slice, ({ part }) => part.message.text),
        toArrayLiteral(slice, ({ part: { message } }) => (message.toolCalls.length === 0 ? '[]' : JSON.stringify(message.toolCalls))),
        toArrayLiteral(slice, ({ createdAt }) => new Date(createdAt).toISOString()),
      ],
    );
  }
}

function countCharacters({
  part: {
    message: { text, toolCalls },
  },
}: NewPart): number {
  return toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, text.length);
}

async function findParts(tx: Queries, parts: readonly NewPart[]): Promise<ReadonlySet<string>> {
  const rows = await queryInBatches<{ projectId: string; hash: Sha256 }, NewPart>(
    tx,
    parts,
    `select project_id as "projectId", requested.hash
       from unnest($1::uuid[], $2::text[]) as requested (project_id, hash)
       join parts using (project_id)
      where parts.hash = decode(requested.hash, 'hex')`,
    (slice) => [toArrayLiteral(slice, ({ projectId }) => projectId), toArrayLiteral(slice, ({ part }) => part.hash)],
  );
  return new Set(rows.map(({ projectId, hash }) => toKey(projectId, hash)));
}
