/**
 * Code that all parts of an import share. It runs the transactions, counts the records, and knows the rules for ids and
 * erased subjects.
 */
import { v7 } from 'uuid';
import { gatewayError } from '../../core/errors.ts';
import { timeOf } from '../../core/ids.ts';
import { sha256 } from '../../core/sha256.ts';
import type { Clock } from '../../core/time.ts';
import type { Queries } from '../../db/database.ts';
import { lockConversations, lockMemories, lockProject } from '../../db/locks.ts';
import { findInjection } from '../../guardrails/injection.ts';
import { findErasureTimes, markRestored } from '../erasure/tombstones.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import type { RecordType } from './format.ts';

const importCounts = ['added', 'present', 'refused'] as const;
export type ImportCount = (typeof importCounts)[number];

export interface Refusal {
  readonly line: number;
  readonly type: RecordType;
  readonly reason: string;
}

/**
 * Times may be this far in the future, because a few lists have local times and clocks aren't exact. If we allowed
 * more, a memory would count as the newest one for a long time.
 */
const maxFutureMs = 86_400_000;

/** How many refused records an import lists in detail. It only counts the rest. */
const maxRefusals = 1_000;

export type Tally = ReturnType<typeof createTally>;

export function createTally() {
  const counts = new Map<RecordType, Record<ImportCount, number>>();
  const refusals: Refusal[] = [];
  const count = (type: RecordType, outcome: ImportCount, by = 1): void => {
    const row = counts.get(type) ?? { added: 0, present: 0, refused: 0 };
    row[outcome] += by;
    counts.set(type, row);
  };
  return {
    counts,
    refusals: refusals as readonly Refusal[],
    count,
    refuse(type: RecordType, line: number, reason: string): void {
      count(type, 'refused');
      if (refusals.length < maxRefusals) refusals.push({ line, type, reason });
    },
    add(other: { readonly counts: typeof counts; readonly refusals: readonly Refusal[] }): void {
      for (const [type, row] of other.counts) for (const outcome of importCounts) count(type, outcome, row[outcome]);
      refusals.push(...other.refusals.slice(0, maxRefusals - refusals.length));
    },
  };
}

export interface ImportBatch {
  readonly tx: Queries;
  readonly projectId: string;
  readonly clock: Clock;
  readonly tally: Tally;
  /** False for a dry run, which only counts. */
  readonly writes: boolean;
  /** True if the file was exported from this project, so that the import can keep its ids. */
  readonly keepsIds: boolean;
  /**
   * Returns why a record with this subject and these times is refused, or null if it can be imported. Times are in
   * RFC 3339, and if `createdAt` is null, it's the current time.
   */
  readonly refusalOf: (subject: string | null, createdAt: string | null, otherTimes?: readonly string[]) => string | null;
}

export interface BatchOptions extends Omit<ImportBatch, 'refusalOf'> {
  readonly subjects: Iterable<string | null>;
  readonly startedAt: Date;
  /** When the export was created, or null if the file doesn't say. In that case, the time of each record counts. */
  readonly exportedAt: Date | null;
  readonly restoreErased: boolean;
}

/** Throws `memory_off`. */
export async function requireMemory(queries: Queries, projectId: string): Promise<void> {
  if (!(await readProjectMemorySettings(queries, projectId)).enabled) throw gatewayError('memory_off');
}

/**
 * Runs `work`, which imports a batch of records, while holding the project's shared lock. Throws `memory_off`.
 *
 * Records of an erased subject are refused if they were written before the erasure, unless the caller wants to restore
 * them. If the erasure happens during the import, they can't be restored and are always refused.
 */
export async function runBatch(options: BatchOptions, work: (batch: ImportBatch) => Promise<void>): Promise<void> {
  const { tx, projectId, subjects, startedAt, restoreErased, writes } = options;
  // If the clock of the exporting gateway was ahead, we don't know when it exported the records.
  const exportedAt = options.exportedAt !== null && options.exportedAt <= startedAt ? options.exportedAt : null;
  await lockProject(tx, projectId, 'shared');
  await lockConversations(tx, projectId);
  await lockMemories(tx, projectId);
  await requireMemory(tx, projectId);
  const distinct = new Set([...subjects].filter((subject) => subject !== null));
  const erasures = await findErasureTimes(tx, projectId, [...distinct]);
  const restored = new Set<string>();
  await work({
    ...options,
    refusalOf(subject, createdAt, otherTimes = []) {
      const created = createdAt === null ? startedAt : new Date(createdAt);
      const latest = Math.max(created.getTime(), ...otherTimes.map(Date.parse));
      if (latest > startedAt.getTime() + maxFutureMs) return 'its time is in the future';
      const erasedAt = subject === null ? undefined : erasures.get(subject);
      if (subject === null || !erasedAt) return null;
      // The times in the file come from other clocks, which may be ahead of ours. An erasure during the import can
      // therefore look older than the file, so we also compare it with the start of the import.
      if (erasedAt >= startedAt || (!restoreErased && erasedAt >= (exportedAt ?? created))) return 'the subject was erased';
      if (created <= erasedAt) restored.add(subject);
      return null;
    },
  });
  if (writes && restored.size > 0) await markRestored(tx, projectId, [...restored]);
}

/**
 * Inserts rows, and counts them as added or present. A dry run only counts. The SQL refers to the rows as `new` and to
 * the project as `$1`.
 *
 * We append `on conflict do nothing returning 1` to `insert`, so a row that conflicts with an existing one counts as
 * present. `known` selects something if the project already has the row.
 */
export async function insertNew(
  { tx, projectId, tally, writes }: ImportBatch,
  type: RecordType,
  rows: readonly object[],
  { columns, insert, known }: { readonly columns: string; readonly insert: string; readonly known: string },
): Promise<void> {
  const added = await tx.query(
    `with new as (select * from jsonb_to_recordset($2::jsonb) as new (${columns}))
     ${writes ? `${insert} on conflict do nothing returning 1` : `select 1 from new where not exists (${known})`}`,
    [projectId, JSON.stringify(rows)],
  );
  tally.count(type, 'added', added.length);
  tally.count(type, 'present', rows.length - added.length);
}

/** Returns why the injection detector rejects this text, or null if it doesn't. */
export function injectionIn(text: string): string | null {
  const kind = findInjection(text);
  return kind === null ? null : `prompt_injection (${kind})`;
}

/**
 * Derives an id for a row whose original id belongs to another project. It contains the time of the original, and is
 * the same in every import.
 */
function deriveId(projectId: string, id: string): string {
  return v7({ msecs: timeOf(id), random: sha256(`import 1\n${projectId}\n${id}`).subarray(0, 16) });
}

type IdTable = 'conversations' | 'memory_items' | 'memory_facts' | 'memory_entities';

/**
 * Looks up rows of a table by the ids that the file uses for them. `toIds` returns the ids in a record that refer to
 * this table.
 */
export async function mapIds<Row>(
  { tx, projectId, keepsIds }: ImportBatch,
  table: IdTable,
  records: readonly Row[],
  toIds: (record: Row) => string | readonly string[],
) {
  const derived = new Map(records.flatMap(toIds).map((id) => [id, deriveId(projectId, id)]));
  const rows = await tx.query<{ id: string; isOwn: boolean }>(
    `select id, project_id = $2::uuid as "isOwn" from ${table} where id = any($1::uuid[])`,
    [[...derived].flat(), projectId],
  );
  const isOwn = new Map(rows.map((row) => [row.id, row.isOwn]));
  const derivedOf = (id: string): string => derived.get(id) ?? deriveId(projectId, id);
  return {
    /**
     * Maps the id that a row has in the file to its id in this project. Returns null if the project doesn't have the
     * row.
     */
    find: (id: string): string | null =>
      [...(keepsIds ? [id] : []), derivedOf(id)].find((candidate) => isOwn.get(candidate) === true) ?? null,
    newIdFor: (id: string): string => (keepsIds && !isOwn.has(id) ? id : derivedOf(id)),
  };
}
