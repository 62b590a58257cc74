import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseJsonOrThrow } from '../../src/core/json/parse.ts';
import type { Queries } from '../../src/db/database.ts';
import { type Column, queryInBatches, selectRows, toBatches } from '../../src/db/row-batches.ts';
import { describeDatabases } from './databases.ts';

test('splits rows into batches of up to 500 rows and 1 Mi characters', () => {
  const lengths = (rows: readonly string[]) => [...toBatches(rows, (row) => row.length)].map((batch) => batch.length);
  expect(lengths(Array(1_200).fill('x'))).toEqual([500, 500, 200]);
  expect(lengths(['x'.repeat(600_000), 'y'.repeat(600_000), 'z'.repeat(3_000_000), 'a', 'b'])).toEqual([1, 1, 1, 2]);
  expect(lengths([])).toEqual([]);
});

test('returns rows in the same order as the requested keys', async () => {
  const statements: number[] = [];
  const tx: Queries = {
    async query<Row>(_text: string, [keys]: readonly unknown[] = []): Promise<Row[]> {
      const batch = keys as number[];
      statements.push(batch.length);
      return batch as Row[];
    },
  };
  const keys = Array.from({ length: 501 }, (_, index) => index);
  expect(await queryInBatches<number, number>(tx, keys, 'select unnest($1::int[])', (batch) => [batch])).toEqual(keys);
  expect(await queryInBatches<number, number>(tx, [], 'select unnest($1::int[])', (batch) => [batch])).toEqual([]);
  expect(statements).toEqual([500, 1]);
});

interface Row {
  readonly id: number;
  readonly name: string | null;
  readonly hash: string | null;
  readonly isOpen: boolean;
  readonly json: string | null;
}

const columns: readonly Column<Row>[] = [
  ['id', 'bigint', ({ id }) => id],
  ['name', 'text', ({ name }) => name],
  ['hash', 'bytea', ({ hash }) => hash],
  ['is_open', 'boolean', ({ isOpen }) => isOpen],
  ['json', 'jsonb', ({ json }) => json],
];

test('sends a column only once if all its values are identical', () => {
  const row: Row = { id: 1, name: 'x', hash: null, isOpen: true, json: '[]' };
  expect(selectRows(columns, [row, { ...row, isOpen: false }]).values).toEqual(['{1,1}', 'x', null, '{true,false}', '[]']);
  expect(selectRows(columns, [{ ...row, hash: '00ff' }]).values).toEqual(['{1}', 'x', Buffer.from([0, 255]), true, '[]']);
});

describeDatabases('sent rows', (database) => {
  test('the database receives batched rows unchanged and in order', async () => {
    const row = fc.record<Row>({
      id: fc.integer(),
      name: fc.constantFrom('', 'a "name" \\', 'long '.repeat(20), null),
      hash: fc.constantFrom('', 'ab'.repeat(32), null),
      isOpen: fc.boolean(),
      json: fc.constantFrom('[]', '{"a":"b \\"c\\""}', null),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 4 }), async (rows) => {
        const { text, values } = selectRows(columns, rows);
        const stored = await database().query(
          `select id, name, encode(hash, 'hex') as hash, is_open as "isOpen", json from (${text}) as sent`,
          values,
        );
        expect(stored).toEqual(rows.map((sent) => ({ ...sent, json: sent.json === null ? null : parseJsonOrThrow(sent.json) })));
      }),
      { numRuns: 200 },
    );
  });
});
