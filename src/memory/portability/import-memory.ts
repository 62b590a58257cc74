/**
 * Imports memory from a stream, which can be an export of a gateway, mem0's `get_all()`, or a plain list
 * (docs/memory-export.md).
 *
 * We add what the project doesn't have and never change what it has, so if an import is interrupted you can simply
 * repeat it. Each batch is one transaction under the project's shared lock. If we can't read a line, the import ends
 * with `bad_request`, but everything before that line has been imported. Records that memory can't store are refused
 * and reported, and so are records of subjects that have been erased since. All other records are still imported.
 */
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import { databaseOf } from '../../db/query-slots.ts';
import { readForeignItems } from './foreign-formats.ts';
import { type BatchOptions, createTally, type ImportBatch, requireMemory, runBatch, type Tally } from './import-batch.ts';
import { importForeignItems } from './import-items.ts';
import { createRecordImport, subjectOf } from './import-records.ts';
import { openExport } from './read-export.ts';

export const importFormats = ['gateway', 'mem0', 'list'] as const;

export interface ImportRequest {
  readonly projectId: string;
  readonly project: string;
  readonly format: (typeof importFormats)[number];
  readonly chunks: AsyncIterable<Uint8Array>;
  /** True for a dry run, which counts what an import would do but doesn't write anything. */
  readonly dryRun: boolean;
  /** True to import records even if their subject was erased after they were written or exported. */
  readonly restoreErased: boolean;
  /** Filled in as the import proceeds, so the caller can tell what was imported even if the import fails halfway. */
  readonly tally?: Tally;
}

/** The result of an import. Only the first thousand refused records are listed in detail. */
export interface ImportReport extends Pick<Tally, 'counts' | 'refusals'> {
  readonly dryRun: boolean;
}

export type ImportMemory = ReturnType<typeof createImportMemory>;

/**
 * Limits the number of records in a batch, and of the characters that they take up in the file. We only store 400
 * passages per conversation and batch (`records/passages.ts`), so we'd lose some of the text in a larger batch.
 */
const maxRecords = 500;
const maxCharacters = 200_000;

export function createImportMemory({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  /** Throws `bad_request` or `memory_off`. */
  return async (request: ImportRequest): Promise<ImportReport> => {
    const { format, projectId, chunks, dryRun, restoreErased, tally = createTally() } = request;
    const startedAt = await begin(database, projectId);
    const store = async ({ work, ...options }: StoreOptions): Promise<void> => {
      // Each batch has its own tally, so that we can throw it away if the transaction fails.
      const ofBatch = createTally();
      const ofImport = { projectId, clock, writes: !dryRun, startedAt, restoreErased, tally: ofBatch };
      await databaseOf(database, projectId).transaction((tx) => runBatch({ ...ofImport, ...options, tx }, work));
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

/** Throws `memory_off` if memory is off. Returns the time when the import starts, by the database's clock. */
async function begin(database: Database, projectId: string): Promise<Date> {
  await requireMemory(database, projectId);
  const [row] = await database.query<{ now: Date }>('select clock_timestamp() as now');
  if (!row) throw new Error('expected the database to return its current time');
  return row.now;
}

/** Groups records into batches. If one record can't be read, the records before it are still stored. */
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
