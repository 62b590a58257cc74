/**
 * Stores the prompt and response of every call. They're split into parts, so that calls of a project can share the
 * parts that they have in common.
 */
import { toArrayLiteral } from '../../db/array-literal.ts';
import type { Queries } from '../../db/database.ts';
import { type Column, querySelected } from '../../db/row-batches.ts';
import { type CallChains, storeParts } from './store-parts.ts';

export interface CallText extends CallChains {
  readonly callId: string;
  readonly subject: string | null;
  /** The ids of the memories that recall inserted into the prompt. */
  readonly recalled: readonly string[];
  /** Estimated number of tokens that recall added to the prompt. Null if it added none or if the number is unknown. */
  readonly recalledTokens: number | null;
  /** The request's parameters as JSON. Null if we don't know them. */
  readonly parameters: string | null;
}

export async function findStoredCallIds(tx: Queries, callIds: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ callId: string }>(`select call_id as "callId" from call_texts where call_id = any($1::uuid[])`, [
    toArrayLiteral(callIds, (id) => id),
  ]);
  return new Set(rows.map((row) => row.callId));
}

/**
 * Stores the texts of calls. A text that's already stored stays as it is. `conversationIds` maps the id of a call to
 * the id of its conversation, if it has one.
 */
export async function storeTexts(tx: Queries, texts: readonly CallText[], conversationIds: ReadonlyMap<string, string>): Promise<void> {
  await storeParts(tx, texts);
  const columns: readonly Column<CallText>[] = [
    ['call_id', 'uuid', ({ callId }) => callId],
    ['project_id', 'uuid', ({ projectId }) => projectId],
    ['conversation_id', 'uuid', ({ callId }) => conversationIds.get(callId) ?? null],
    ['subject', 'text', ({ subject }) => subject],
    ['context_hash', 'bytea', ({ context }) => context.at(-1)?.hash ?? null],
    ['extras_hash', 'bytea', ({ extras }) => extras.at(-1)?.hash ?? null],
    ['last_hash', 'bytea', ({ parts }) => parts.at(-1)?.hash ?? null],
    ['answered', 'boolean', ({ parts, promptLength }) => parts.length > promptLength],
    ['created_at', 'float8', ({ startedAt }) => startedAt],
    ['parameters', 'text', ({ parameters }) => parameters],
    ['recalled_items', 'text', ({ recalled }) => (recalled.length === 0 ? '{}' : `{${recalled.join(',')}}`)],
    ['recalled_tokens', 'integer', ({ recalledTokens }) => recalledTokens],
  ];
  await querySelected(tx, texts, columns, insertSql);
}

const insertSql = (rows: string): string =>
  `insert into call_texts (call_id, project_id, conversation_id, subject, context_hash, extras_hash, last_hash, answered, created_at,
                           parameters, recalled_items, recalled_tokens, shares_texts)
   select call_id, project_id, conversation_id, subject, context_hash, extras_hash, last_hash, answered,
          to_timestamp(created_at / 1000), parameters, recalled_items::uuid[], recalled_tokens, true
     from (${rows}) as new
   on conflict (call_id) do nothing`;
