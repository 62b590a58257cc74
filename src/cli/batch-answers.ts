/** Learning batches, for people. */
import { type JsonObject, listOf, objectOf } from '../core/json.ts';
import { money } from './answers.ts';
import { formatTable } from './table.ts';

export function describeBatches(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'No batches.\n';
  return formatTable(
    ['CREATED', 'KIND', 'STATE', ...progressTitles, 'ID'],
    rows.map((row) => [row.created_at, row.kind, row.state, ...progressOf(row), row.id]),
  );
}

/** The batch, and its groups in a table of their own. */
export function describeBatch(batch: JsonObject): string {
  const groups = listOf(batch.groups).map(objectOf);
  const table = formatTable(
    ['GROUP', 'END USER (SHA-256)', 'STATE', ...progressTitles],
    groups.map((group) => [group.position, textStart(group.subject_sha256), group.state, ...progressOf(group)]),
  );
  return `${describeBatches([batch])}\n${table}`;
}

const progressTitles = ['MESSAGES', 'CALLS', 'COST', 'WRITTEN', 'REPEATED', 'DROPPED', 'MERGED', 'FACTS', 'NEXT TRY', 'ERROR'];

function progressOf(row: JsonObject): unknown[] {
  const { written, repeated, dropped, merged } = objectOf(row.memories);
  const { code } = objectOf(row.error);
  return [row.messages, row.attempts, money(row.cost), written, repeated, dropped, merged, row.facts, row.next_try_at, code];
}

function textStart(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, 12) : null;
}
