/**
 * Imports memory from a stream: an export of a gateway, mem0's `get_all()`, or a plain list (docs/memory-export.md).
 *
 * Adds what the project does not have, and changes nothing that it has, so an import that was interrupted is repeated. Each batch is one
 * transaction under the project's shared lock. A line that cannot be read ends the import with `bad_request`; what precedes it is imported. A
 * record that memory may not store, and one of a subject that was erased since, is refused and reported; the others are imported.
 */
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { readForeignItems } from './foreign-formats.ts';
import { type BatchOptions, createTally, type ImportBatch, requireMemory, runBatch, type Tally } from './import-batch.ts';
import { importForeignItems } from './import-items.ts';
import { createRecordImport, subjectOf } from './import-records.ts';
import { openExport } from './read-export.ts';

export const importFormats = ['gateway', 'mem0', 'list'] as const;

export interface ImportRequest {
  readonly projectId: string;
  /** Slug of the project. */
  readonly project: string;
  readonly format: (typeof importFormats)[number];
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Counts what an import would do, and writes nothing. */
  readonly dryRun: boolean;
  /** Imports also records of subjects that were erased after the records were made, or after the export. */
  readonly restoreErased: boolean;
  /** Counts what is imported, also by an import that then ends with an error. */
  readonly tally?: Tally;
}

/** Of the refusals the first thousand. */
export interface ImportReport extends Pick<Tally, 'counts' | 'refusals'> {
  readonly dryRun: boolean;
}

export type ImportMemory = ReturnType<typeof createImportMemory>;

/** Of a batch; characters of the file. A conversation keeps at most 400 passages of a batch (`records/passages.ts`), so a batch must have fewer. */
const maxRecords = 500;
const maxCharacters = 200_000;

export function createImportMemory({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  /** Throws `bad_request`, `memory_off`. */
  return async (request: ImportRequest): Promise<ImportReport> => {
    const { format, projectId, chunks, dryRun, restoreErased, tally = createTally() } = request;
    const startedAt = await begin(database, projectId);
    const store = async ({ work, ...options }: StoreOptions): Promise<void> => {
      // A transaction that fails imports nothing of what it has counted.
      const ofBatch = createTally();
      const ofImport = { projectId, clock, writes: !dryRun, startedAt, restoreErased, tally: ofBatch };
      await database.transaction((tx) => runBatch({ ...ofImport, ...options, tx }, work));
      tally.add(ofBatch);
    };
    if (format === 'gateway') {
      const { header, records } = await openExport(chunks);
      const ofFile = { keepsIds: header.project === request.project, exportedAt: new Date(header.exported_at) };
      const importRecords = createRecordImport();
      await inBatches(records(), (lines) =>
        store({ ...ofFile, subjects: lines.map(subjectOf), work: (batch) => importRecords(batch, lines) }),
      );
    } else {
      await inBatches(readForeignItems(format, chunks), (items) => {
        const subjects = items.map(({ subject }) => subject);
        return store({ keepsIds: false, exportedAt: null, subjects, work: (batch) => importForeignItems(batch, format, items) });
      });
    }
    return { dryRun, counts: tally.counts, refusals: tally.refusals };
  };
}

interface StoreOptions extends Pick<BatchOptions, 'keepsIds' | 'exportedAt' | 'subjects'> {
  readonly work: (batch: ImportBatch) => Promise<void>;
}

/** The time of the database. */
async function begin(database: Database, projectId: string): Promise<Date> {
  await requireMemory(database, projectId);
  const [row] = await database.query<{ now: Date }>('select clock_timestamp() as now');
  if (!row) throw new Error('the database has no time');
  return row.now;
}

/** Stores what was read also when the next record cannot be read. */
async function inBatches<Value extends { readonly length: number }>(
  values: AsyncIterable<Value>,
  store: (batch: readonly Value[]) => Promise<void>,
): Promise<void> {
  let batch: Value[] = [];
  let characters = 0;
  const flush = async (): Promise<void> => {
    const full = batch;
    batch = [];
    characters = 0;
    if (full.length > 0) await store(full);
  };
  try {
    for await (const value of values) {
      if (batch.length > 0 && (batch.length >= maxRecords || characters + value.length > maxCharacters)) await flush();
      batch.push(value);
      characters += value.length;
    }
  } finally {
    await flush();
  }
}
