import { asArray, asObject, isObject, type JsonObject } from '../core/json/narrow.ts';
import { formatUsd } from './format-reports.ts';
import { type Column, createListFormatter, formatFacts, formatList, titleOf } from './table.ts';

const progress: readonly Column[] = [
  ['MESSAGES', (row) => row.messages],
  ['CALLS', (row) => row.attempts],
  ['COST', (row) => formatUsd(row.cost)],
  ...['written', 'repeated', 'dropped', 'merged'].map((name): Column => [titleOf(name), (row) => asObject(row.memories)[name]]),
  'facts',
  ['NEXT TRY', (row) => row.next_try_at],
  ['ERROR', (row) => asObject(row.error).code],
];
const batchColumns = ['created_at', 'project', 'kind', 'state', ...progress, 'id', ['RUN', (row: JsonObject) => row.run_url] as const];
const groupColumns: readonly Column[] = [
  ['GROUP', (row) => row.position],
  ['END USER (SHA-256)', ({ subject_sha256: hash }) => (typeof hash === 'string' ? hash.slice(0, 12) : null)],
  'state',
  ...progress,
];

export const formatBatches = createListFormatter({ all: 'No batches.', filtered: 'No batches match.' }, batchColumns);

/** Formats a batch as a table of its groups, followed by their errors. */
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
  if (groups.length === 0) return `${facts}\nThe batch has no groups, because it had nothing to read or its messages were erased.\n`;
  const table = formatList('', groupColumns, { data: groups });
  const errors = groups.flatMap(({ position, error }) => (isObject(error) ? [[`group ${String(position)}`, error.message] as const] : []));
  return `${facts}\n${table}${errors.length === 0 ? '' : `\n${formatFacts(errors)}`}`;
}

/** Formats the response after replaying a single batch, or all batches of a project that are in a certain state. */
export function formatReplay(batch: JsonObject): string {
  if (Array.isArray(batch.batches)) {
    const { project, state, batches } = batch;
    if (batches.length === 0) return `The project ${String(project)} has no ${String(state)} batches.\n`;
    return `Retrying ${batches.length} ${batches.length === 1 ? 'batch' : 'batches'} now.\n\n${batches.join('\n')}\n`;
  }
  return `${batch.state === 'done' ? 'The batch is done, so there is nothing to retry.' : 'Retrying the batch now.'}\n\n${formatBatch(batch)}`;
}
