/** Stores the prompt and response of every call: messages as parts shared within the project, everything else with the call. */
import type { Queries } from '../../db/database.ts';
import { queryInBatches, toBatches, toColumns } from '../../db/row-batches.ts';
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
    callId,
    projectId,
    conversationId: conversationIds.get(callId) ?? null,
    subject,
    extras: JSON.stringify(extras),
    lastHash: parts.at(-1)?.hash ?? null,
    answered: parts.length > promptLength,
    createdAt: new Date(startedAt).toISOString(),
    // unnest needs inner arrays of one length, so each list is passed as an array literal.
    recalled: `{${recalled.join(',')}}`,
  }));
  for (const slice of toBatches(rows, ({ extras }) => extras.length)) {
    await tx.query(
      `insert into call_texts (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)
       select call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items::uuid[]
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::jsonb[], $6::bytea[], $7::boolean[], $8::timestamptz[], $9::text[])
           as text (call_id, project_id, conversation_id, subject, extras, last_hash, answered, created_at, recalled_items)`,
      toColumns(slice, 'callId', 'projectId', 'conversationId', 'subject', 'extras', 'lastHash', 'answered', 'createdAt', 'recalled'),
    );
  }
}

interface NewPart {
  readonly projectId: string;
  readonly part: ChainPart;
  readonly createdAt: number;
}

/**
 * Stores the parts that are missing. A stored part implies its predecessors, so looking hashes up first sends only the new end of a repeated
 * history: usually two messages of forty.
 */
async function storeParts(tx: Queries, texts: readonly CallText[]): Promise<void> {
  const requested = new Map<string, NewPart>();
  for (const { projectId, parts, startedAt } of texts) {
    for (const part of parts) {
      const key = projectId + hashKey(part.hash);
      if (!requested.has(key)) requested.set(key, { projectId, part, createdAt: startedAt });
    }
  }
  const existing = await findParts(tx, [...requested.values()]);
  const added = [...requested].flatMap(([key, part]) => (existing.has(key) ? [] : [part]));
  for (const slice of toBatches(added, ({ part }) => countCharacters(part))) {
    await tx.query(
      `insert into parts (project_id, hash, parent_hash, role, content, created_at)
       select * from unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::text[], $5::jsonb[], $6::timestamptz[])
       on conflict (project_id, hash) do nothing`,
      [
        slice.map(({ projectId }) => projectId),
        slice.map(({ part }) => part.hash),
        slice.map(({ part }) => part.parentHash),
        slice.map(({ part }) => part.message.role),
        slice.map(({ part }) => JSON.stringify({ text: part.message.text, tool_calls: part.message.toolCalls })),
        slice.map(({ createdAt }) => new Date(createdAt).toISOString()),
      ],
    );
  }
}

function countCharacters({ message: { text, toolCalls } }: ChainPart): number {
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
