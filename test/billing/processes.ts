/**
 * Runs several real gateway processes on one PostgreSQL database. They are killed and restarted in the middle of calls.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createProcesses, type GatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, openTestDatabase } from '../support/postgres.ts';
import { createRandom } from '../support/random.ts';
import { billingYaml } from './models.ts';
import type { BillingTarget } from './run.ts';
import { createBillingVendor } from './vendor.ts';

/** This is long enough to recover the journal of a killed process. */
const settleMs = 120_000;

export async function withBillingProcesses<Result>(count: number, work: (target: BillingTarget) => Promise<Result>): Promise<Result> {
  const processes = createProcesses();
  const vendor = await createBillingVendor();
  const testDatabase = await createTestDatabase();
  const database = openTestDatabase(testDatabase.url, 2);
  const env = { DATABASE_URL: testDatabase.url };
  const homes = await Promise.all(Array.from({ length: count }, () => processes.home('empty')));
  const running: GatewayProcess[] = [];
  const start = async (index: number): Promise<void> => {
    running[index] = await processes.start('serve', { home: homes[index] ?? '', env });
  };
  try {
    for (const home of homes) await writeFile(join(home, 'gateway.yaml'), billingYaml(vendor.url));
    await Promise.all(homes.map((_, index) => start(index)));
    return await work({
      urls: () => running.map(({ url }) => url),
      // We send admin requests to the first process because it is never killed.
      admin: (method, path, body) => (running[0] as GatewayProcess).admin(method, path, body),
      database,
      vendor,
      settleMs,
      /** Kills a process in about every second run, then restarts it with its journal like an orchestrator would. */
      async incident({ seed }) {
        const random = createRandom(seed);
        if (count === 1 || random.chance(0.5)) return;
        const index = random.between(1, count - 1);
        await sleep(random.between(0, 150));
        await running[index]?.end('SIGKILL');
        await start(index);
      },
    });
  } finally {
    await processes.stopAll();
    await vendor.close();
    await database.close();
    await testDatabase.drop();
  }
}
