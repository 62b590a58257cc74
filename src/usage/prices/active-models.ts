/**
 * Keeps track of the active models. They come from the configuration and from imports. An imported row overrides a
 * built-in one, and the configuration file overrides both. `onChange` is called after every change, and changed prices
 * are recorded (price-history.ts).
 *
 * Imports are announced to all processes with NOTIFY. While the database is unavailable, we keep using the rows that we
 * have and retry the sync.
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

/** The catalog columns that are needed here. */
export interface ModelRow extends ModelPrices {
  readonly source: 'file' | 'import' | 'starter';
}

/** `start` doesn't wait any longer than this for the stored rows. */
const startTimeoutMs = 2_000;

export type Models<Row> = Readonly<Record<string, Row>>;

export interface ActiveModelsOptions<Row extends ModelRow> {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The rows of the configuration, in their original order. */
  readonly configured: Models<Row>;
  /**
   * Validates imported rows against the current configuration. Returns the valid rows, and an error for each invalid
   * one.
   */
  readonly parseRows: (models: JsonObject) => { readonly rows: Models<Row>; readonly errors: readonly string[] };
  /** Returns a row's prices for tokens and searches. */
  readonly priceOf: (row: Row) => Price | null;
  /** Called after each change, synchronously. */
  readonly onChange: (models: Models<Row>) => void;
  readonly retryIntervalMs?: number;
}

/** The models in an import, by what happened to them. */
export interface ImportReceipt {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  readonly removed: readonly string[];
  /** Stored without any effect, because the configuration file overrides them. */
  readonly kept_by_file: readonly string[];
}

export interface ImportPreview<Row> {
  readonly receipt: ImportReceipt;
  readonly before: Models<Row>;
  readonly after: Models<Row>;
}

export interface ActiveModels<Row extends ModelRow> {
  models(): Models<Row>;
  /**
   * Stores the given rows and activates them. If a model's row is null, its imported row is removed. If any row is
   * invalid, nothing is stored, and this rejects with a `bad_request` that lists all problems.
   */
  import(models: unknown): Promise<ImportReceipt>;
  /**
   * Returns what `import` would do without storing anything, with the active rows before and after. Throws the same
   * errors as `import`.
   */
  preview(models: unknown): ImportPreview<Row>;
  /** Switches to the rows of a new configuration. */
  reconfigure(configured: Models<Row>): void;
  /** Resolves when all stored rows are active and all prices are recorded. */
  synced(): Promise<void>;
  /** Loads the stored rows, so that even the first calls use them. Gives up waiting after two seconds. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createActiveModels<Row extends ModelRow>(options: ActiveModelsOptions<Row>): ActiveModels<Row> {
  const { database, clock, logger, parseRows, priceOf, onChange, retryIntervalMs = 5_000 } = options;
  let configured = options.configured;
  let stored: JsonObject = {};
  let active: Models<Row> = configured;
  /**
   * What we've recorded last. As long as a model's prices stay the same, there's no need to compare them with the
   * database.
   */
  const recorded = new Map<string, JsonObject | null>();
  /** True if imported rows may have changed since our last read. */
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
    onFailure: (err) => logger.warn({ err }, 'model sync failed; retrying'),
  });

  const onImport = (): void => {
    isStale = true;
    sync.wake();
  };

  const synced = async (): Promise<void> => {
    await sync.idle(); // The run in progress may not see the latest change, so wait for another one.
    await sync.runNow();
  };

  return {
    models: () => active,
    async import(models) {
      const { rows, removed } = parseImport(models, parseRows);
      const before = active;
      await storeImportedModels(database, { rows, removed, now: clock.now() });
      isStale = true;
      await synced();
      return buildReceipt({ before, after: active, imported: Object.keys(rows), removed });
    },
    preview(models) {
      const { rows, removed } = parseImport(models, parseRows);
      const kept = Object.entries(stored).filter(([id]) => !removed.includes(id));
      const after = mergeModels(configured, parseRows({ ...Object.fromEntries(kept), ...rows }).rows);
      return { receipt: buildReceipt({ before: active, after, imported: Object.keys(rows), removed }), before: active, after };
    },
    reconfigure(next) {
      configured = next;
      apply();
      sync.wake();
    },
    synced,
    async start() {
      subscription ??= await database.listen(catalogChannel, onImport, onImport);
      isStale = true;
      sync.start();
      await withTimeout(sync.idle(), startTimeoutMs, () => undefined);
    },
    async stop() {
      await sync.stop();
      await subscription?.stop();
      subscription = null;
    },
  };
}

/**
 * Overlays the imported rows on the configured ones. Configured rows keep their place. Imported ones replace built-in
 * rows with the same id, and otherwise go to the end.
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
