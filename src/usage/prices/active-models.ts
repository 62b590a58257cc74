/**
 * The models in force: rows of the configuration, with imported rows over the built-in ones and below the file's. Whoever builds a catalog
 * of them is told at each change; each change of a price is written down (price-history.ts).
 *
 * Imports reach every process by NOTIFY. A store that cannot be read leaves the rows in force that are known, and is tried again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { gatewayError } from '../../core/errors.ts';
import { isObject, type JsonObject } from '../../core/json/narrow.ts';
import type { Price } from '../../core/pricing.ts';
import type { Clock } from '../../core/time.ts';
import type { Database } from '../../db/database.ts';
import type { Logger } from '../../observability/logger.ts';
import { catalogChannel, readImportedModels, storeImportedModels } from './imported-models.ts';
import { recordPrices } from './price-history.ts';
import { type ModelPrices, toStoredPrice } from './stored-price.ts';

/** A row of the catalog as far as this room knows it. */
export interface ModelRow extends ModelPrices {
  readonly source: 'file' | 'import' | 'starter';
}

/** How long a start waits for the stored rows. */
const startTimeoutMs = 2_000;

export type Models<Row> = Readonly<Record<string, Row>>;

export interface ActiveModelsOptions<Row extends ModelRow> {
  readonly database: Database;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Rows of the configuration, in its order. */
  readonly configured: Models<Row>;
  /** Reads rows that were sent or stored, by the configuration in force: those that can be used, and what is wrong with the others. */
  readonly parseRows: (models: JsonObject) => { readonly rows: Models<Row>; readonly faults: readonly string[] };
  /** What a row's tokens and searches cost. */
  readonly priceOf: (row: Row) => Price | null;
  /** Told at once of each change. */
  readonly onChange: (models: Models<Row>) => void;
  readonly retryIntervalMs?: number;
}

/** What an import has done, by model. */
export interface ImportReceipt {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  readonly removed: readonly string[];
  /** Stored, but the file has a row of its own for them, which stays in force. */
  readonly kept_by_file: readonly string[];
}

export interface ActiveModels<Row extends ModelRow> {
  models(): Models<Row>;
  /**
   * Stores rows by model, null to take an imported one away, and puts them in force. Rejects with `bad_request` that names every fault; then
   * nothing was stored.
   */
  import(models: unknown): Promise<ImportReceipt>;
  /** Puts the rows of a new configuration in force. */
  reconfigure(configured: Models<Row>): void;
  /** Settles when all that is stored is in force and all prices are written down. */
  synced(): Promise<void>;
  /** Waits a moment for the stored rows, so that the first calls have them; not for a store that is down. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createActiveModels<Row extends ModelRow>(options: ActiveModelsOptions<Row>): ActiveModels<Row> {
  const { database, clock, logger, parseRows, priceOf, onChange, retryIntervalMs = 5_000 } = options;
  let configured = options.configured;
  let stored: JsonObject = {};
  let active: Models<Row> = configured;
  /** Prices as they were last written down, so that only changes are compared with the database. */
  const recorded = new Map<string, JsonObject | null>();
  let isStale = true;
  let isUnrecorded = true;
  let running: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  let subscription: { stop(): Promise<void> } | null = null;
  let isStopped = false;

  const apply = (): void => {
    const { rows, faults } = parseRows(stored);
    if (faults.length > 0)
      logger.warn({ count: faults.length, faults: faults.slice(0, 5) }, 'imported models that cannot be used are left out');
    active = mergeModels(configured, rows);
    isUnrecorded = true;
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

  const run = async (): Promise<void> => {
    try {
      while (isStale || isUnrecorded) {
        if (isStale) {
          isStale = false;
          try {
            stored = await readImportedModels(database);
          } catch (error) {
            isStale = true;
            throw error;
          }
          apply();
        } else {
          isUnrecorded = false;
          try {
            await record();
          } catch (error) {
            isUnrecorded = true;
            throw error;
          }
        }
      }
    } finally {
      running = null;
    }
  };

  /** One run at a time; it goes on until there is nothing left to do, whoever found it. */
  const sync = async (): Promise<void> => {
    if (running === null && !isStale && !isUnrecorded) return;
    running ??= run();
    await running;
  };

  const syncInBackground = (): void => {
    clearTimeout(timer);
    if (isStopped) return;
    sync().catch((error: unknown) => {
      if (isStopped) return;
      logger.warn({ error }, 'imported models and prices cannot be brought up to date; trying again');
      timer = setTimeout(syncInBackground, retryIntervalMs).unref();
    });
  };

  const onImport = (): void => {
    isStale = true;
    syncInBackground();
  };

  return {
    models: () => active,
    async import(models) {
      const { rows, removed } = parseImport(models, parseRows);
      const before = active;
      await storeImportedModels(database, { rows, removed, now: clock.now() });
      isStale = true;
      try {
        await sync();
      } catch (error) {
        syncInBackground();
        throw error;
      }
      return buildReceipt({ before, after: active, imported: Object.keys(rows), removed });
    },
    reconfigure(next) {
      configured = next;
      apply();
      syncInBackground();
    },
    synced: sync,
    async start() {
      isStopped = false;
      subscription ??= await database.listen(catalogChannel, onImport, onImport);
      onImport();
      const limit = new AbortController();
      const caughtUp = sync().catch(() => undefined); // Tried again in the background, where it is told too.
      await Promise.race([caughtUp, sleep(startTimeoutMs, undefined, { signal: limit.signal }).catch(() => undefined)]);
      limit.abort();
    },
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running?.catch(() => undefined); // Its fault was told by whoever began it.
      await subscription?.stop();
      subscription = null;
    },
  };
}

/** The file's rows, imported ones instead of built-in ones in their places, then further imported ones. */
function mergeModels<Row extends ModelRow>(configured: Models<Row>, imported: Models<Row>): Models<Row> {
  const rows = Object.entries(configured).map(([id, row]) => [id, row.source === 'starter' ? (imported[id] ?? row) : row] as const);
  const additional = Object.entries(imported).filter(([id]) => !Object.hasOwn(configured, id));
  return Object.fromEntries([...rows, ...additional]);
}

function parseImport<Row>(
  models: unknown,
  parseRows: (models: JsonObject) => { readonly rows: Models<Row>; readonly faults: readonly string[] },
): { rows: JsonObject; removed: string[] } {
  if (!isObject(models)) throw gatewayError('bad_request', { message: 'models: must be rows by model' });
  const entries = Object.entries(models);
  const rows = Object.fromEntries(entries.filter(([, row]) => row !== null));
  const { faults } = parseRows(rows);
  if (faults.length > 0) throw gatewayError('bad_request', { message: faults.join('; ') });
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
