/** Stores the prompt and response of every call: messages as parts shared within the project, everything else with the call. */
import type { Queries } from '../../db/database.ts';
import { queryInBatches, toBatches } from '../../db/row-batches.ts';
import type { PositionedExtra } from '../../dialects/prompt/prompt.ts';
import { type ChainPart, hashKey } from './chain.ts';

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
  const rows = texts.map(({ callId, projectId, subject, extras, parts, promptLength, startedAt, recalled }) => ({
    call_id: callId,
    project_id: projectId,
    conversation_id: conversationIds.get(callId) ?? null,
    subject,
    extras,
    last_hash: parts.at(-1)?.hash.toString('hex') ?? null,
    answered: parts.length > promptLength,
    created_at: new Date(startedAt).toISOString(),
    recalled_items: recalled,
  }));
  for (const slice of toBatches(rows, ({ extras }) =>
    extras.reduce((sum, extra) => sum + (extra.kind === 'binary' ? 0 : extra.text.length), 0),
  )) {
    await tx.query(
      `insert into call_texts (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)
       select call_id, project_id, conversation_id, subject, extras, decode(last_hash, 'hex'), answered, created_at, recalled_items
         from jsonb_to_recordset($1::jsonb)
           as text (call_id uuid, project_id uuid, conversation_id uuid, subject text, extras jsonb, last_hash text, answered boolean,
                    created_at timestamptz, recalled_items uuid[])`,
      [JSON.stringify(slice)],
    );
  }
}

interface NewPart {
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
    const newParts = parts.map((part) => ({ projectId, part, createdAt: startedAt }));
    const lastResponse = parts.slice(0, promptLength).findLastIndex(({ message }) => message.role === 'assistant');
    const historyLength = Math.max(lastResponse + 1, promptLength - maxUnchecked);
    for (const part of newParts.slice(historyLength)) addOnce(countCharacters(part) > maxUncheckedLength ? checked : ends, part);
    const last = newParts[historyLength - 1];
    if (last && !histories.has(toKey(last))) histories.set(toKey(last), newParts.slice(0, historyLength));
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
  const key = toKey(part);
  if (!parts.has(key)) parts.set(key, part);
}

function toKey({ projectId, part }: NewPart): string {
  return projectId + hashKey(part.hash);
}

async function insertParts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  for (const slice of toBatches(parts, countCharacters)) {
    const rows = slice.map(({ projectId, part: { hash, parentHash, message }, createdAt }) => ({
      project_id: projectId,
      hash: hash.toString('hex'),
      parent_hash: parentHash?.toString('hex') ?? null,
      role: message.role,
      content: { text: message.text, tool_calls: message.toolCalls },
      created_at: new Date(createdAt).toISOString(),
    }));
    await tx.query(
      `insert into parts (project_id, hash, parent_hash, role, content, created_at)
       select project_id, decode(hash, 'hex'), decode(parent_hash, 'hex'), role, content, created_at
         from jsonb_to_recordset($1::jsonb)
           as new (project_id uuid, hash text, parent_hash text, role text, content jsonb, created_at timestamptz)
       on conflict (project_id, hash) do nothing`,
      [JSON.stringify(rows)],
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
  const rows = await queryInBatches<{ projectId: string; hash: Buffer }, NewPart>(
    tx,
    parts,
    `select part.project_id as "projectId", part.hash
       from unnest($1::uuid[], $2::bytea[]) as requested (project_id, hash)
       join parts part on part.project_id = requested.project_id and part.hash = requested.hash`,
    (slice) => [slice.map(({ projectId }) => projectId), slice.map(({ part }) => part.hash)],
  );
  return new Set(rows.map((row) => row.projectId + hashKey(row.hash)));
}
