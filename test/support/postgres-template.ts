/** Creates a migrated database on the test server. Copying it takes a tenth of the time that the migrations take. */
import { migrate } from '../../src/db/migrate.ts';
import { openServerDatabase } from '../../src/db/pool.ts';
import { createTestDatabase, type TestDatabase } from './postgres-database.ts';

/** Creates the template. There can't be any connections to it while it's being copied. */
export async function createPostgresTemplate(): Promise<TestDatabase> {
  const template = await createTestDatabase('empty');
  // Like `gateway migrate`, we don't limit how long a statement can take, because on a busy machine ten seconds aren't
  // enough. It can also take long to connect, since this process is blocked while it creates the embedded template.
  const options = { maxConnections: 1, statementTimeoutMs: 0, connectTimeoutMs: 60_000 };
  const database = openServerDatabase({ connectionString: template.url, ...options });
  try {
    await migrate(database);
  } finally {
    await database.close();
  }
  return template;
}
