/**
 * Runs two recoveries of the same data directory. Neither of them may read, lock or recreate something that the other
 * one removes.
 */
import { readdirSync, rmSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { isUuid } from '../../src/core/ids.ts';
import type { Failpoint } from '../../src/journal/failpoints.ts';
import { createRecovery } from '../../src/journal/recover.ts';
import { emptyDatabase, keepingLogger, withFolder } from './calls.ts';

const journalIds = ['01890a5d-ac96-774b-bcce-b302099a8057', '01890a5d-ac96-774b-bcce-b302099a8058'] as const;

/** Recovers the journals of two dead processes, which contain no calls. */
async function recoverTwo(dataDir: string, onFailpoint: (name: Failpoint, journals: string) => void): Promise<readonly string[]> {
  const journals = join(dataDir, 'journal');
  for (const id of journalIds) await mkdir(join(journals, id), { recursive: true });
  const recovered: string[] = [];
  const recovery = createRecovery({
    dataDir,
    ownId: 'own',
    database: emptyDatabase(),
    store: async () => undefined,
    logger: keepingLogger(),
    onRecovered: async (id) => void recovered.push(id),
    failpoint: (name) => onFailpoint(name, journals),
  });
  await recovery.recover();
  await recovery.stop();
  expect(await readdir(journals)).toEqual([]);
  return recovered;
}

test('recovery ignores a journal whose files are being deleted', () =>
  withFolder(async (dataDir) => {
    const left: string[][] = [];
    await recoverTwo(dataDir, (name, journals) => {
      if (name === 'after rename') left.push(readdirSync(journals).filter((entry) => isUuid(entry)));
    });
    expect(left).toEqual([[journalIds[1]], []]);
  }));

test('recovery skips a journal that another process has recovered in the meantime', () =>
  withFolder(async (dataDir) => {
    const recovered = await recoverTwo(dataDir, (name, journals) => {
      if (name === 'before unknown') rmSync(join(journals, journalIds[1]), { recursive: true, force: true });
    });
    expect(recovered).toEqual([journalIds[0]]);
  }));
