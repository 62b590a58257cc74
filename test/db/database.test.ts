import { afterEach, expect, test } from '@jest/globals';
import { fromSql } from 'pgvector';
import { toVectorParameter } from '../../src/memory/text/vectors.ts';
import { describeDatabases } from './databases.ts';

describeDatabases('a database', (database) => {
  const stops: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  const listen = async (channel: string): Promise<{ payloads: string[] }> => {
    const payloads: string[] = [];
    const { stop } = await database().listen(channel, (payload) => payloads.push(payload));
    stops.push(stop);
    return { payloads };
  };

  test('returns the same JavaScript values for SQL types on both kinds of databases', async () => {
    const rows = await database().query(
      `select 9007199254740991::int8 as "int8", array[1, null, 3]::int8[] as "int8s", 1.50::numeric as "numeric", array[1.50]::numeric[] as "numerics",
              '2026-11-20T10:00:00.5+02'::timestamptz as "instant", array['2026-11-20T10:00:00Z']::timestamptz[] as "instants",
              '2026-11-20'::date as "day", '2026-11-20 10:00'::timestamp as "local", 0.5::float8 as "float8", 7::int4 as "int4",
              '{"a": [1, {"b": null}]}'::jsonb as "jsonb", '\\x00ff'::bytea as "bytea", array['\\x01'::bytea, '\\x02'::bytea] as "byteas",
              array['a', 'b"c,{}', null]::text[] as "texts", 'a'::text as "text", true as "bool", null::int8 as "nothing",
              '0193a8f0-0000-7000-8000-000000000000'::uuid as "uuid", '[1,2]'::vector as "vector"`,
    );
    expect(rows).toEqual([
      {
        int8: 9007199254740991,
        int8s: [1, null, 3],
        numeric: '1.50',
        numerics: ['1.50'],
        instant: new Date('2026-11-20T08:00:00.5Z'),
        instants: [new Date('2026-11-20T10:00:00Z')],
        day: '2026-11-20',
        local: '2026-11-20 10:00:00',
        float8: 0.5,
        int4: 7,
        jsonb: { a: [1, { b: null }] },
        bytea: Buffer.from([0, 255]),
        byteas: [Buffer.from([1]), Buffer.from([2])],
        texts: ['a', 'b"c,{}', null],
        text: 'a',
        bool: true,
        nothing: null,
        uuid: '0193a8f0-0000-7000-8000-000000000000',
        vector: '[1,2]',
      },
    ]);
  });

  test('accepts every parameter type that our queries use', async () => {
    const rows = await database().query(
      `select $1::bytea as "bytes", $2::bytea[] as "list", $3::jsonb as "json", $4::timestamptz as "instant", $5::bigint as "big", $6::text[] as "texts", $7::vector as "vector"`,
      [
        Buffer.from([0, 1]),
        [Buffer.from([2])],
        JSON.stringify({ a: 'ü' }),
        new Date(5),
        12n,
        ['a', null, 'c,"d'],
        toVectorParameter([1e-7, -0.5]),
      ],
    );
    expect(rows).toEqual([
      {
        bytes: Buffer.from([0, 1]),
        list: [Buffer.from([2])],
        json: { a: 'ü' },
        instant: new Date(5),
        big: 12,
        texts: ['a', null, 'c,"d'],
        vector: expect.any(String),
      },
    ]);
    expect(fromSql(String(rows[0]?.vector))).toEqual([1e-7, -0.5]);
  });

  test('rolls back a transaction if its callback throws', async () => {
    await database().query('create table kept (n integer primary key)');
    await database().transaction((tx) => tx.query('insert into kept values ($1::integer)', [1]));
    const failing = database().transaction(async (tx) => {
      await tx.query('insert into kept values (2)');
      throw new Error('rejected by the caller');
    });
    await expect(failing).rejects.toThrow('rejected by the caller');
    const violating = database().transaction(async (tx) => {
      await tx.query('insert into kept values (3)');
      await tx.query('insert into kept values (1)');
    });
    await expect(violating).rejects.toMatchObject({ code: '23505' });
    expect(await database().query('select n from kept')).toEqual([{ n: 1 }]);
  });

  test('resets `set local` settings at the end of a transaction', async () => {
    const read = 'select current_setting($1::text) as value';
    const [before] = await database().query(read, ['work_mem']);
    const inside = await database().transaction(
      (tx) => tx.query(read, ['work_mem']),
      "set local work_mem = '77kB'; set local enable_sort = off",
    );
    expect([inside, await database().query(read, ['work_mem'])]).toEqual([[{ value: '77kB' }], [before]]);
    const invalid = database().transaction((tx) => tx.query('select 1'), 'set local work_mem = broken');
    await expect(invalid).rejects.toThrow(/work_mem/);
    expect(await database().query('select 1 as one')).toEqual([{ one: 1 }]);
  });

  test('the connection stays usable after a failed statement', async () => {
    for (let round = 0; round < 3; round += 1) {
      await expect(database().query('select $1::integer', ['no number'])).rejects.toMatchObject({ code: '22P02' });
      await expect(database().query('select * from nowhere')).rejects.toMatchObject({ code: '42P01' });
      expect(await database().query('select 1 as one')).toEqual([{ one: 1 }]);
    }
  });

  test('runs many queries and transactions concurrently', async () => {
    await database().query('create table counted (n integer)');
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        n % 2 === 0
          ? database().query('insert into counted values ($1::integer)', [n])
          : database().transaction((tx) => tx.query('insert into counted values ($1::integer)', [n])),
      ),
    );
    expect(await database().query('select count(*) as n from counted')).toEqual([{ n: 40 }]);
  });

  test('sends notifications only after the transaction commits', async () => {
    const [first, second, other] = [await listen('channel_a'), await listen('channel_a'), await listen('channel_b')];
    await database()
      .transaction(async (tx) => {
        await tx.query(`select pg_notify('channel_a', 'never')`);
        throw new Error('rolled back');
      })
      .catch(() => undefined);
    await database().query(`select pg_notify('channel_a', 'once')`);
    await until(() => first.payloads.length > 0 && second.payloads.length > 0);
    expect([first.payloads, second.payloads, other.payloads]).toEqual([['once'], ['once'], []]);
  });

  test('stops notifying a listener that has unsubscribed', async () => {
    const payloads: string[] = [];
    const leaving = await database().listen('channel_c', (payload) => payloads.push(payload));
    const staying = await listen('channel_c');
    await leaving.stop();
    await database().query(`select pg_notify('channel_c', 'later')`);
    await until(() => staying.payloads.length > 0);
    expect(payloads).toEqual([]);
  });

  test('keeps notifying the other listeners if one of them throws', async () => {
    const { stop } = await database().listen('channel_d', () => {
      throw new Error('the listener failed');
    });
    stops.push(stop);
    const other = await listen('channel_d');
    await database().query(`select pg_notify('channel_d', 'x')`);
    await until(() => other.payloads.length > 0);
  });

  test('can subscribe to notifications while transactions are running', async () => {
    const busy = Array.from({ length: 20 }, (_, n) => database().transaction((tx) => tx.query('select $1::integer as n', [n])));
    const [payloads, ...results] = await Promise.all([listen('channel_e'), ...busy]);
    expect(results).toEqual(busy.map((_, n) => [{ n }]));
    await database().query(`select pg_notify('channel_e', 'y')`);
    await until(() => payloads.payloads.length > 0);
  });
});

/** Notifications arrive asynchronously. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('the condition did not hold within a minute');
    await new Promise((resolve) => setImmediate(resolve));
  }
}
