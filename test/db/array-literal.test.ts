import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { toArrayLiteral, toArrayParameter } from '../../src/db/array-literal.ts';
import { describeDatabases } from './databases.ts';

describeDatabases('PostgreSQL array literals', (database) => {
  test('any text that PostgreSQL can store survives an array literal unchanged', async () => {
    const unit = fc.oneof(fc.constantFrom('"', '\\', ',', '{', '}', '\n', 'N', '\u2028'), fc.string({ unit: 'grapheme', maxLength: 1 }));
    const short = fc.string({ unit, maxLength: 6 }).filter((value) => !value.includes('\0'));
    const text = fc.oneof(
      short,
      short.map((value) => value.repeat(70)),
    );
    const values = fc.array(fc.oneof(text, fc.constantFrom(null, 'NULL', 'null', '')), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(values, async (list) => {
        for (const parameter of [toArrayLiteral(list, (value) => value), toArrayParameter('text', list)]) {
          const rows = await database().query<{ value: string | null }>('select * from unnest($1::text[]) as value', [parameter]);
          expect(rows.map(({ value }) => value)).toEqual(list);
        }
      }),
      { numRuns: 200 },
    );
  });

  test('an array literal encodes bytes as hexadecimal digits', async () => {
    const bytes = fc.uint8Array({ maxLength: 40 }).map((list) => Buffer.from(list).toString('hex'));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(bytes, fc.constant(null)), { maxLength: 5 }), async (list) => {
        const rows = await database().query<{ value: string | null }>(
          `select encode(bytes, 'hex') as value from unnest($1::bytea[]) as list (bytes)`,
          [toArrayParameter('bytea', list)],
        );
        expect(rows.map(({ value }) => value)).toEqual(list);
      }),
      { numRuns: 100 },
    );
  });

  test("rejects text that PostgreSQL can't store", async () => {
    for (const text of ['\0', 'x'.repeat(70).concat('\0')]) {
      const refused = database().query('select unnest($1::text[])', [toArrayParameter('text', [text])]);
      await expect(refused).rejects.toMatchObject({ code: '22021' });
    }
  });

  test('array literals keep numbers, booleans, bytes and JSON unchanged', async () => {
    const rows = await database().query(
      'select * from unnest($1::bigint[], $2::boolean[], $3::bytea[], $4::jsonb[]) as list(n, flag, bytes, json)',
      [
        toArrayLiteral([9_007_199_254_740_991, -1, null], (value) => value),
        toArrayLiteral([true, false, null], (value) => value),
        toArrayLiteral(['\\x00ff', '\\x', null], (value) => value),
        toArrayLiteral([JSON.stringify({ a: 'b "c" \\ \n' }), '[]', 'null'], (value) => value),
      ],
    );
    expect(rows.map((row) => JSON.parse(JSON.stringify(row)))).toMatchObject([
      { n: 9_007_199_254_740_991, flag: true, json: { a: 'b "c" \\ \n' } },
      { n: -1, flag: false, json: [] },
      { n: null, flag: null, bytes: null, json: null },
    ]);
  });
});
