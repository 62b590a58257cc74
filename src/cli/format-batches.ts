/** Formats learning batches for a terminal. */
import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import { formatUsd } from './format-reports.ts';
import { formatFacts, formatTable, toRows } from './table.ts';

export function formatBatches(response: JsonObject): string {
  const rows = toRows(response);
  if (rows.length === 0) return 'No batches.\n';
  return formatTable(
    ['CREATED', 'PROJECT', 'KIND', 'STATE', ...progressTitles, 'ID', 'RUN'],
    rows.map((row) => [row.created_at, row.project, row.kind, row.state, ...progressCells(row), row.id, row.run_url]),
  );
}

/** The batch, a table of its groups, and their errors in full. */
export function formatBatch(batch: JsonObject): string {
  const groups = asArray(batch.groups).map(asObject);
  const facts = formatFacts([
    ['batch', batch.id],
    ['project', batch.project],
    ['kind', batch.kind],
    ['state', batch.state],
    ['episode', batch.episode_id],
    ['created', batch.created_at],
    ['finished', batch.finished_at],
    ['cost', formatUsd(batch.cost)],
    ['workflow', batch.workflow_id],
    ['run', batch.run_url],
    ...(isObject(batch.error) ? [['error', batch.error.message] as const] : []),
  ]);
  if (groups.length === 0) return `${facts}\nThe batch has no groups: it had nothing to read, or its messages were erased.\n`;
  const table = formatTable(
    ['GROUP', 'END USER (SHA-256)', 'STATE', ...progressTitles],
    groups.map((group) => [group.position, abbreviateHash(group.subject_sha256), group.state, ...progressCells(group)]),
  );
  const errors = groups.flatMap(({ position, error }) => (isObject(error) ? [[`group ${String(position)}`, error.message] as const] : []));
  return `${facts}\n${table}${errors.length === 0 ? '' : `\n${formatFacts(errors)}`}`;
}

/** Of one batch, or of all of a project in a state. */
export function formatReplay(batch: JsonObject): string {
  if (Array.isArray(batch.batches)) {
    const { project, state, batches } = batch;
    if (batches.length === 0) return `The project ${String(project)} has no ${String(state)} batches.\n`;
    return `Retrying ${batches.length} ${batches.length === 1 ? 'batch' : 'batches'} now.\n\n${batches.join('\n')}\n`;
  }
  return `${batch.state === 'done' ? 'The batch is done; nothing to retry.' : 'Retrying the batch now.'}\n\n${formatBatch(batch)}`;
}

const progressTitles = ['MESSAGES', 'CALLS', 'COST', 'WRITTEN', 'REPEATED', 'DROPPED', 'MERGED', 'FACTS', 'NEXT TRY', 'ERROR'];

function progressCells(row: JsonObject): unknown[] {
  const { written, repeated, dropped, merged } = asObject(row.memories);
  const { code } = asObject(row.error);
  return [row.messages, row.attempts, formatUsd(row.cost), written, repeated, dropped, merged, row.facts, row.next_try_at, code];
}

function abbreviateHash(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, 12) : null;
}
