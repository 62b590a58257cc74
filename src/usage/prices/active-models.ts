/**
 * Keeps track of the models that are active. They come from the configuration and from imports. An import overrides our
 * built-in rows, and the configuration file overrides both.
 *
 * After every change we call `onChange` and record changed prices (price-history.ts). Every process learns about
 * imports through NOTIFY. While the database is unavailable, we keep using the rows that we have and retry the sync.
 */
import { isDeepStrictEqual } from 'node:util';
import { createBackgroundLoop } from '../../core/background-loop.ts';
import { gatewayError } from '../../core/errors.ts';
import { isObject, type JsonObject } from '../../core/json/narrow.ts';
import type { Price } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import { withTimeout } from '../../core/time-limit.ts';
import type { Database } from '../../db/database.ts';
import type { Logger } from '../../observability/logger.ts';
import { catalogChannel, readImportedModels, storeImportedModels } from './imported-models.ts';
import { recordPrices } from './price-history.ts';
import { type ModelPrices, toStoredPrice } from './stored-price.ts';

export interface ModelRow extends ModelPrices {
  readonly source: 'file' | 'import' | 'starter';
}

const startTimeoutMs = 2_000;

export type Models<Row> = Readonly<Record<string, Row>>;

export interface ActiveModelsOptions<Row extends ModelRow> {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly configured: Models<Row>;
  /**
   * Validates imported rows against the current configuration. Returns the valid rows, and an error for each invalid
   * one.
   */
  readonly parseRows: (models: JsonObject) => { readonly rows: Models<Row>; readonly errors: readonly string[] };
  readonly priceOf: (row: Row) => Price | null;
  /** Called synchronously after each change. */
  readonly onChange: (models: Models<Row>) => void;
  readonly retryIntervalMs?: number;
}

export interface ImportReceipt {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  readonly removed: readonly string[];
  /** The ids of models whose imported row has no effect, because gateway.yaml overrides it. */
  readonly kept_by_file: readonly string[];
}

export type ActiveModels<Row extends ModelRow> = ReturnType<typeof createActiveModels<Row>>;

export function createActiveModels<Row extends ModelRow>(options: ActiveModelsOptions<Row>) {
  const { database, clock, logger, parseRows, priceOf, onChange, retryIntervalMs = 5_000 } = options;
  let configured = options.configured;
  let stored: JsonObject = {};
  let active: Models<Row> = configured;
  /**
   * The last recorded price of each model. As long as a price hasn't changed, we don't have to compare it with the
   * database.
   */
  const recorded = new Map<string, JsonObject | null>();
  /** True if somebody may have changed the imported rows since we last read them. */
  let isStale = true;
  let subscription: { stop(): Promise<void> } | null = null;

  const apply = (): void => {
    const { rows, errors } = parseRows(stored);
    if (errors.length > 0) logger.warn({ count: errors.length, errors: errors.slice(0, 5) }, 'skipped invalid imported models');
    active = mergeModels(configured, rows);
    onChange(active);
  };

  const record = async (): Promise<void> => {
    const entries = Object.entries(active).flatMap(([model, row]) => {
      const price = toStoredPrice({ ...row, price: priceOf(row) });
      return recorded.has(model) && isDeepStrictEqual(recorded.get(model), price) ? [] : [{ model, price, source: row.source }];
    });
    await recordPrices(database, entries, clock.now());
    for (const { model, price } of entries) recorded.set(model, price);
  };

  const sync = createBackgroundLoop({
    async run() {
      if (isStale) {
        isStale = false;
        try {
          stored = await readImportedModels(database);
        } catch (error) {
          isStale = true;
          throw error;
        }
        apply();
      }
      await record();
      return 'idle';
    },
    intervalMs: null,
    backoff: { initialMs: retryIntervalMs, maxMs: retryIntervalMs },
    onFailure: (err) => logger.warn({ err }, 'failed to sync the model catalog; retrying'),
  });

  const onImport = (): void => {
    isStale = true;
    sync.wake();
  };

  /** Resolves once all stored rows are active and all prices are recorded. */
  const synced = async (): Promise<void> => {
    // A run in progress may not see the latest change, so wait for it and then run again.
    await sync.idle();
    await sync.runNow();
  };

  return {
    models: () => active,
    /**
     * Stores and activates rows. A null row removes the model's imported row. Rejects with a `bad_request` that lists
     * all problems if anything is invalid, in which case nothing is stored.
     */
    async import(models: unknown): Promise<ImportReceipt> {
      const { rows, removed } = parseImport(models, parseRows);
      const before = active;
      await storeImportedModels(database, { rows, removed, now: clock.now() });
      isStale = true;
      await synced();
      return buildReceipt({ before, after: active, imported: Object.keys(rows), removed });
    },
    /**
     * Returns the active rows before and after an import without storing anything. Throws the same errors as `import`.
     */
    preview(models: unknown) {
      const { rows, removed } = parseImport(models, parseRows);
      const kept = Object.entries(stored).filter(([id]) => !removed.includes(id));
      const after = mergeModels(configured, parseRows({ ...Object.fromEntries(kept), ...rows }).rows);
      return { receipt: buildReceipt({ before: active, after, imported: Object.keys(rows), removed }), before: active, after };
    },
    reconfigure(next: Models<Row>): void {
      configured = next;
      apply();
      sync.wake();
    },
    synced,
    /** Loads the stored rows before the first call. Continues without them after two seconds. */
    async start(): Promise<void> {
      subscription ??= await database.listen(catalogChannel, onImport, onImport);
      isStale = true;
      sync.start();
      await withTimeout(sync.idle(), startTimeoutMs, () => undefined);
    },
    async stop(): Promise<void> {
      await sync.stop();
      await subscription?.stop();
      subscription = null;
    },
  };
}

/**
 * Merges imported rows into the configured ones without changing their order. An imported row replaces a built-in row
 * with the same id, but not a row from gateway.yaml. Rows with new ids go to the end.
 */
function mergeModels<Row extends ModelRow>(configured: Models<Row>, imported: Models<Row>): Models<Row> {
  const rows = Object.entries(configured).map(([id, row]) => [id, row.source === 'starter' ? (imported[id] ?? row) : row] as const);
  const additional = Object.entries(imported).filter(([id]) => !Object.hasOwn(configured, id));
  return Object.fromEntries([...rows, ...additional]);
}

function parseImport<Row>(
  models: unknown,
  parseRows: (models: JsonObject) => { readonly rows: Models<Row>; readonly errors: readonly string[] },
): { rows: JsonObject; removed: string[] } {
  if (!isObject(models))
    throw gatewayError('bad_request', { issues: [{ path: 'models', message: 'must be an object with one row per model' }] });
  const entries = Object.entries(models);
  const rows = Object.fromEntries(entries.filter(([, row]) => row !== null));
  const { errors } = parseRows(rows);
  if (errors.length > 0) throw gatewayError('bad_request', { message: errors.join('; ') });
  return { rows, removed: entries.filter(([, row]) => row === null).map(([id]) => id) };
}

interface Change<Row> {
  readonly before: Models<Row>;
  readonly after: Models<Row>;
  readonly imported: readonly string[];
  readonly removed: readonly string[];
}

function buildReceipt<Row extends ModelRow>({ before, after, imported, removed }: Change<Row>): ImportReceipt {
  const isFile = (id: string): boolean => after[id]?.source === 'file';
  const isSame = (id: string): boolean => isDeepStrictEqual({ ...before[id], source: null }, { ...after[id], source: null });
  const effective = imported.filter((id) => !isFile(id));
  return {
    added: effective.filter((id) => !Object.hasOwn(before, id)),
    changed: effective.filter((id) => Object.hasOwn(before, id) && !isSame(id)),
    unchanged: effective.filter((id) => Object.hasOwn(before, id) && isSame(id)),
    removed: removed.filter((id) => before[id]?.source === 'import'),
    kept_by_file: imported.filter(isFile),
  };
}
