import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { JsonObject } from '../../../src/core/json/narrow.ts';
import { asObject } from '../../../src/core/json/narrow.ts';
import type { Database } from '../../../src/db/database.ts';
import type { ActiveModels, Models } from '../../../src/usage/prices/active-models.ts';
import { createActiveModels } from '../../../src/usage/prices/active-models.ts';
import { priceAt } from '../../../src/usage/prices/price-history.ts';
import { describeDatabases } from '../../db/databases.ts';
import { eventually } from '../../support/gateway.ts';

interface Row {
  readonly source: 'file' | 'import' | 'starter';
  readonly price: null;
  readonly perImageNanos: bigint | null;
  readonly perMillionCharactersNanos: null;
  readonly perSecondNanos: null;
}

const row = (source: Row['source'], nanos: number): Row => ({
  source,
  price: null,
  perImageNanos: BigInt(nanos),
  perMillionCharactersNanos: null,
  perSecondNanos: null,
});

/** Rows are `{"nanos": 5}`. The provider `gone` is not configured. */
function readRows(models: JsonObject): { rows: Models<Row>; errors: string[] } {
  const entries = Object.entries(models).map(([id, values]) => ({ id, nanos: asObject(values).nanos }));
  const isGood = ({ id, nanos }: { id: string; nanos: unknown }): boolean => typeof nanos === 'number' && !id.startsWith('gone/');
  return {
    rows: Object.fromEntries(entries.filter(isGood).map(({ id, nanos }) => [id, row('import', Number(nanos))])),
    errors: entries.filter((entry) => !isGood(entry)).map(({ id }) => `${id}: bad`),
  };
}

const pricesOf = (models: Models<Row>): Record<string, string> =>
  Object.fromEntries(Object.entries(models).map(([id, { source, perImageNanos }]) => [id, `${perImageNanos} ${source}`]));

describeDatabases('the models and prices that are in effect', (database) => {
  const warnings: string[] = [];
  const started: ActiveModels<Row>[] = [];
  let now = 1_000_000;

  const begin = async (
    configured: Models<Row>,
    onChange: (models: Models<Row>) => void = () => undefined,
    store: Database = database(),
  ): Promise<ActiveModels<Row>> => {
    const note = (_fields: unknown, message: string): void => void warnings.push(message);
    const logger = { debug: note, info: note, warn: note, error: note };
    const models = createActiveModels<Row>({
      ...{
        database: store,
        clock: { now: () => now },
        logger,
        configured,
        parseRows: readRows,
        priceOf: () => null,
        onChange,
        retryIntervalMs: 20,
      },
    });
    started.push(models);
    await models.start();
    return models;
  };

  beforeEach(async () => {
    warnings.length = 0;
    now += 1_000_000;
    await database().query('delete from catalog_models');
    await database().query('delete from model_prices');
  });
  afterEach(async () => {
    for (const models of started.splice(0)) await models.stop();
  });

  test('prefers prices in gateway.yaml over imported prices, and imported prices over built-in prices', async () => {
    const configured = { 'a/file': row('file', 1), 'a/starter': row('starter', 2), 'a/other': row('starter', 3) };
    const seen: Record<string, string>[] = [];
    const first = await begin(configured);
    await begin(configured, (models) => seen.push(pricesOf(models)));
    const sent = { 'a/file': { nanos: 10 }, 'a/starter': { nanos: 20 }, 'a/other': { nanos: 3 }, 'a/new': { nanos: 30 } };
    expect(await first.import(sent)).toEqual({
      added: ['a/new'],
      changed: ['a/starter'],
      unchanged: ['a/other'],
      removed: [],
      kept_by_file: ['a/file'],
    });
    const wanted = { 'a/file': '1 file', 'a/starter': '20 import', 'a/other': '3 import', 'a/new': '30 import' };
    expect(pricesOf(first.models())).toEqual(wanted);
    expect(Object.keys(first.models())).toEqual(['a/file', 'a/starter', 'a/other', 'a/new']);
    await eventually(async () => expect(seen.at(-1)).toEqual(wanted));
    expect(pricesOf((await begin(configured)).models())).toEqual(wanted);
  });

  test('uses the built-in price again when an imported price is set to null', async () => {
    const models = await begin({ 'a/starter': row('starter', 2) });
    await models.import({ 'a/starter': { nanos: 20 }, 'a/new': { nanos: 30 } });
    const receipt = await models.import({ 'a/starter': null, 'a/new': null, 'a/never': null });
    expect(receipt).toMatchObject({ added: [], changed: [], removed: ['a/starter', 'a/new'] });
    expect(pricesOf(models.models())).toEqual({ 'a/starter': '2 starter' });
  });

  test("doesn't import any prices if one of them is invalid, and reports every error", async () => {
    const models = await begin({});
    await expect(models.import({ 'a/good': { nanos: 1 }, 'a/bad': {}, 'gone/x': { nanos: 1 } })).rejects.toMatchObject({
      code: 'bad_request',
      message: 'a/bad: bad; gone/x: bad',
    });
    await expect(models.import('rows')).rejects.toMatchObject({ code: 'bad_request' });
    expect(await database().query('select model from catalog_models')).toEqual([]);
  });

  test('imports more prices than fit into one batch', async () => {
    const models = await begin({});
    const sent = Object.fromEntries(Array.from({ length: 1_201 }, (_, index) => [`a/m${index}`, { nanos: index }]));
    expect((await models.import(sent)).added).toHaveLength(1_201);
    expect(await models.import(sent)).toMatchObject({ added: [], changed: [], unchanged: { length: 1_201 } });
    expect(await database().query('select count(*) as n from model_prices')).toEqual([{ n: 1_201 }]);
  });

  test('records each price change in the history with its time and source', async () => {
    const models = await begin({ 'a/x': row('starter', 2), 'a/y': row('file', 7) });
    const start = now;
    now += 1_000;
    await models.import({ 'a/x': { nanos: 20 }, 'a/y': { nanos: 70 } });
    now += 1_000;
    models.reconfigure({ 'a/x': row('file', 200), 'a/y': row('file', 7) });
    await models.synced();
    const rows = await database().query(
      `select model, extract(epoch from effective_from)::bigint * 1000 - $1::bigint as at, source from model_prices order by 1, 2`,
      [start],
    );
    expect(rows.map((found) => Object.values(found).join(' '))).toEqual([
      'a/x 0 starter',
      'a/x 1000 import',
      'a/x 2000 file',
      'a/y 0 file',
    ]);
    expect((await priceAt(database(), 'a/x', start + 1_500))?.perImageNanos).toBe(20n);
  });

  test("skips an imported model while its provider isn't configured", async () => {
    await database().query(
      `insert into catalog_models (model, content, imported_at) values ('gone/x', '{"nanos": 1}', now()), ('a/x', '{"nanos": 2}', now())`,
    );
    const models = await begin({});
    expect(pricesOf(models.models())).toEqual({ 'a/x': '2 import' });
    expect(warnings).toEqual(['skipped invalid imported models']);
  });

  test('uses the configuration if the database is down at startup', async () => {
    await database().query(`insert into catalog_models (model, content, imported_at) values ('a/x', '{"nanos": 2}', now())`);
    let isDown = true;
    const failing: Database = {
      ...database(),
      query: (text, values) => (isDown ? Promise.reject(new Error('down')) : database().query(text, values)),
    };
    const models = await begin({ 'a/file': row('file', 1) }, undefined, failing);
    expect(pricesOf(models.models())).toEqual({ 'a/file': '1 file' });
    expect(warnings).toContain('failed to sync the model catalog; retrying');
    isDown = false;
    await eventually(async () => expect(pricesOf(models.models())).toEqual({ 'a/file': '1 file', 'a/x': '2 import' }));
  });
});
