import { expect, test } from '@jest/globals';
import { readPage, readRecord, replaceTables } from './record.ts';

test('docs/clients.md is what the recorded matrix generates (npm run test-clients)', async () => {
  const page = await readPage();
  expect(page).toBe(replaceTables(page, await readRecord()));
});
