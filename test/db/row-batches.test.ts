import { expect, test } from '@jest/globals';
import type { Queries } from '../../src/db/database.ts';
import { queryInBatches, toBatches } from '../../src/db/row-batches.ts';

test('a batch has at most 500 rows and 1 Mi characters; a longer row forms one alone', () => {
  const lengths = (rows: readonly string[]) => [...toBatches(rows, (row) => row.length)].map((batch) => batch.length);
  expect(lengths(Array(1_200).fill('x'))).toEqual([500, 500, 200]);
  expect(lengths(['x'.repeat(600_000), 'y'.repeat(600_000), 'z'.repeat(3_000_000), 'a', 'b'])).toEqual([1, 1, 1, 2]);
  expect(lengths([])).toEqual([]);
});

test('a query in batches returns the rows of all statements in the order of the keys, and runs none without keys', async () => {
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
