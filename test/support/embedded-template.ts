/** A migrated embedded database, made once for a run of the tests: PGlite needs three seconds for a new one, and a tenth of that for a copy. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEmbeddedDatabase } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';

/** Makes the template; test files find it by the environment. Returns how to take it away. */
export async function prepareEmbeddedTemplate(): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-template-'));
  const takeAway = (): Promise<void> => rm(dataDir, { recursive: true, force: true });
  try {
    const database = await openEmbeddedDatabase({ dataDir });
    await migrate(database);
    await database.close();
  } catch (error) {
    await takeAway();
    throw error;
  }
  process.env.GATEWAY_TEST_EMBEDDED_TEMPLATE = join(dataDir, 'db');
  return takeAway;
}

/** Puts a copy of the template into a data directory, so that opening it finds a migrated database. */
export async function copyEmbeddedTemplate(dataDir: string): Promise<void> {
  const template = process.env.GATEWAY_TEST_EMBEDDED_TEMPLATE;
  if (template) await cp(template, join(dataDir, 'db'), { recursive: true });
}
