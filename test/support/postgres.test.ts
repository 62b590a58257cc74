import { expect, test } from '@jest/globals';
import pg from 'pg';
import { describePostgres, withPostgres } from './postgres.ts';

describePostgres('the test database', () => {
  test('creates a separate database with a working pgvector', async () => {
    const rows = await withPostgres(async (url) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query('create extension vector');
      const result = await client.query("select '[1,2,3]'::halfvec(3) <=> '[1,2,3]'::halfvec(3) as distance, current_database() as name");
      await client.end();
      return result.rows;
    });
    expect(rows).toEqual([{ distance: 0, name: expect.stringMatching(/^gateway_test_/) }]);
  });

  test('drops the database even if a connection is still open', async () => {
    const { left, name } = await withPostgres(async (url) => {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => {});
      await client.connect();
      return { left: client, name: new URL(url).pathname.slice(1) };
    });
    await expect(left.query('select 1')).rejects.toThrow();
    const rows = await withPostgres(async (url) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const result = await client.query('select datname from pg_database where datname = $1::text', [name]);
      await client.end();
      return result.rows;
    });
    expect(rows).toEqual([]);
  });
});
