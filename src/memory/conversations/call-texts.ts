/** Stores the prompt and response of every call: messages as parts shared within the project, everything else with the call. */
import { toArrayLiteral, toArrayParameter } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, selectRows, toBatches } from '../../db/row-batches.ts';
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
  const rows = await tx.query<{ callId: string }>(`select call_id as "callId" from call_texts where call_id = any($1::uuid[])`, [
    toArrayLiteral(callIds, (id) => id),
  ]);
  return new Set(rows.map((row) => row.callId));
}

/** Stores those of `texts` that are not stored; `conversationIds` maps recorded calls to their conversation. */
export async function storeTexts(tx: Queries, texts: readonly CallText[], conversationIds: ReadonlyMap<string, string>): Promise<void> {
  await storeParts(tx, texts);
  const columns: readonly Column<CallText>[] = [
    ['call_id', 'uuid', ({ callId }) => callId],
    ['project_id', 'uuid', ({ projectId }) => projectId],
    ['conversation_id', 'uuid', ({ callId }) => conversationIds.get(callId) ?? null],
    ['subject', 'text', ({ subject }) => subject],
    ['extras', 'jsonb', ({ extras }) => (extras.length === 0 ? '[]' : JSON.stringify(extras))],
    ['last_hash', 'bytea', ({ parts }) => parts[parts.length - 1]?.hash ?? null],
    ['answered', 'boolean', ({ parts, promptLength }) => parts.length > promptLength],
    ['created_at', 'float8', ({ startedAt }) => startedAt],
    ['recalled_items', 'text', ({ recalled }) => (recalled.length === 0 ? '{}' : `{${recalled.join(',')}}`)],
  ];
  for (const slice of toBatches(texts, countExtraCharacters)) {
    const rows = selectRows(columns, slice);
    await tx.query(
      `insert into call_texts (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)
       select call_id, project_id, conversation_id, subject, extras, last_hash, answered, to_timestamp(created_at / 1000), recalled_items::uuid[]
         from (${rows.text}) as new
       on conflict (call_id) do nothing`,
      rows.values,
    );
  }
}

function countExtraCharacters({ extras }: CallText): number {
  return extras.reduce((sum, extra) => sum + (extra.kind === 'binary' ? 0 : extra.text.length), 0);
}

interface NewPart {
  readonly projectId: string;
  readonly part: ChainPart;
  readonly createdAt: number;
}

type PartsByHash = Map<Sha256, NewPart>;

/** The parts of a project's calls. */
interface ProjectParts {
  /** Sent without a lookup. */
  readonly ends: PartsByHash;
  readonly checked: PartsByHash;
  /** By the hash of the last part, which is among the checked ones. */
  readonly histories: ReadonlyMap<Sha256, History>;
}

/** The first messages of a call. */
interface History {
  readonly text: CallText;
  readonly length: number;
}

/** A longer message is sent only after a lookup: a repeated document costs more than the lookup. */
const maxUncheckedLength = 4_096;
/** Per prompt: a history may consist of messages of the user only. */
const maxUnchecked = 4;

/**
 * Stores the parts that are missing. What follows the last response of a history is mostly new, so it is sent at once; what precedes it is
 * mostly stored. A stored part implies its predecessors, so the lookup of that response is usually the only one for a history of forty.
 */
async function storeParts(tx: Queries, texts: readonly CallText[]): Promise<void> {
  const projects = [...Map.groupBy(texts, ({ projectId }) => projectId).values()].map(splitParts);
  const stored = await findParts(
    tx,
    projects.flatMap(({ checked }) => [...checked.values()]),
  );
  const unknown = projects.map((project) => missingHistories(project, stored));
  const storedBefore = await findParts(
    tx,
    unknown.flatMap((parts) => [...parts.values()]),
  );
  const found = new Set([...stored, ...storedBefore]);
  const added = projects.flatMap(({ ends, checked }, index) => {
    if (checked.size === 0) return [...ends.values()];
    const earlier = new Map([...(unknown[index] ?? []), ...checked]);
    const parts = new Map([...earlier, ...ends]);
    for (const [hash, part] of earlier) if (found.has(part)) parts.delete(hash);
    return [...parts.values()];
  });
  await insertParts(tx, added);
}

/** Of calls of the same project. */
function splitParts(texts: readonly CallText[]): ProjectParts {
  const ends: PartsByHash = new Map();
  const checked: PartsByHash = new Map();
  const histories = new Map<Sha256, History>();
  for (const text of texts) {
    const { parts, promptLength } = text;
    let length = promptLength;
    while (length > 0 && length > promptLength - maxUnchecked && parts[length - 1]?.message.role !== 'assistant') length -= 1;
    for (let at = length; at < parts.length; at += 1) {
      const part = parts[at];
      if (part) addOnce(countCharacters(part) > maxUncheckedLength ? checked : ends, part, text);
    }
    const last = parts[length - 1];
    if (last && !histories.has(last.hash)) histories.set(last.hash, { text, length });
  }
  for (const [hash, { text, length }] of histories) {
    const last = text.parts[length - 1];
    // Another call of the batch stores the end of such a history, and with it all before.
    if (!last || ends.has(hash) || checked.has(hash)) histories.delete(hash);
    else addOnce(checked, last, text);
  }
  return { ends, checked, histories };
}

/** What precedes the last parts of histories of which that part is not stored. */
function missingHistories({ checked, histories }: ProjectParts, stored: ReadonlySet<NewPart>): PartsByHash {
  const missing: PartsByHash = new Map();
  for (const [hash, { text, length }] of histories) {
    const last = checked.get(hash);
    if (!last || !stored.has(last)) for (const part of text.parts.slice(0, length - 1)) addOnce(missing, part, text);
  }
  return missing;
}

function addOnce(parts: PartsByHash, part: ChainPart, { projectId, startedAt }: CallText): void {
  if (!parts.has(part.hash)) parts.set(part.hash, { projectId, part, createdAt: startedAt });
}

const partColumns: readonly Column<NewPart>[] = [
  ['hash', 'bytea', ({ part }) => part.hash],
  ['project_id', 'uuid', ({ projectId }) => projectId],
  ['parent_hash', 'bytea', ({ part }) => part.parentHash],
  ['role', 'text', ({ part }) => part.message.role],
  ['text', 'text', ({ part }) => part.message.text],
  ['tool_calls', 'jsonb', ({ part: { message } }) => (message.toolCalls.length === 0 ? '[]' : JSON.stringify(message.toolCalls))],
  ['created_at', 'float8', ({ createdAt }) => createdAt],
];

async function insertParts(tx: Queries, parts: readonly NewPart[]): Promise<void> {
  for (const slice of toBatches(parts, ({ part }) => countCharacters(part))) {
    const rows = selectRows(partColumns, slice);
    await tx.query(
      `insert into parts (project_id, hash, parent_hash, role, content, created_at)
       select project_id, hash, parent_hash, role, jsonb_build_object('text', text, 'tool_calls', tool_calls), to_timestamp(created_at / 1000)
         from (${rows.text}) as new
       on conflict (project_id, hash) do nothing`,
      rows.values,
    );
  }
}

function countCharacters({ message: { text, toolCalls } }: ChainPart): number {
  let count = text.length;
  for (const call of toolCalls) count += call.name.length + call.arguments.length;
  return count;
}

/** Those of `parts` that are stored. */
async function findParts(tx: Queries, parts: readonly NewPart[]): Promise<ReadonlySet<NewPart>> {
  const found = new Set<NewPart>();
  for (const slice of toBatches(parts)) {
    const rows = await tx.query<{ position: number }>(
      `select requested.position::integer
         from unnest($1::bytea[], $2::uuid[]) with ordinality as requested (hash, project_id, position)
         join parts using (project_id, hash)`,
      [
        toArrayParameter(
          'bytea',
          slice.map(({ part }) => part.hash),
        ),
        toArrayLiteral(slice, ({ projectId }) => projectId),
      ],
    );
    for (const { position } of rows) {
      const part = slice[position - 1];
      if (part) found.add(part);
    }
  }
  return found;
}
