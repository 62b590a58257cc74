import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { parseForm } from '../../src/http/form-body.ts';

const large = `a=${'%41+x'.repeat(60_000)}&b=%${'1'.repeat(100_000)}`;

test.each(['', '&', 'a', 'a=', '=b', '=', 'a=b=c', 'a=1&&b=2&', 'a+b=c%20d', '%', 'x=%4', 'a=%2&b', '%zz=%4z', 'é=%C3%BC', 'a=%ff', large])(
  'parses the form %.20s in the same way as URLSearchParams',
  async (text) => {
    expect([...(await parseForm(Buffer.from(text)))]).toEqual([...new URLSearchParams(text)]);
  },
);

test('lets other work run while it parses a large form', async () => {
  let isParsed = false;
  let turns = 0;
  const parsed = parseForm(Buffer.from(`text=${'+'.repeat(1_048_576)}`)).finally(() => {
    isParsed = true;
  });
  for (; !isParsed; await nextTurn()) turns += 1;
  expect((await parsed).get('text')).toBe(' '.repeat(1_048_576));
  expect(turns).toBeGreaterThanOrEqual(10);
});

test('refuses a form with too many fields', async () => {
  await expect(parseForm(Buffer.from('a&a&a'), 2)).rejects.toMatchObject({ code: 'bad_request' });
  expect([...(await parseForm(Buffer.from('a&a'), 2))]).toHaveLength(2);
});
