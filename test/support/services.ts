/** What a run of the tests shares: started once before the first test, stopped after the last. Test files see it by the environment. */
import { prepareEmbeddedTemplate } from './embedded-template.ts';
import { ensurePostgres } from './postgres-install.ts';
import { startPostgres } from './postgres-server.ts';
import { ensureTemporal } from './temporal-program.ts';

/** Ends what was started. */
export type Stop = () => Promise<void>;

/** Starts all services at the same time; when one fails, the others are ended. */
export async function startServices(): Promise<Stop> {
  const starting = await Promise.allSettled([preparePostgres(), prepareEmbeddedTemplate(), prepareTemporal()]);
  const stops = starting.flatMap((service) => (service.status === 'fulfilled' ? [service.value] : []));
  const stop: Stop = async () => {
    await Promise.all(stops.map((end) => end()));
  };
  const failure = starting.find((service) => service.status === 'rejected');
  if (failure === undefined) return stop;
  await stop();
  throw failure.reason;
}

/** Never fails: without a server its reason is left in the environment, and test/support/postgres.ts decides what that means. */
async function preparePostgres(): Promise<Stop> {
  const given = process.env.DATABASE_URL;
  // Services that tests start must not take it for their own.
  delete process.env.DATABASE_URL;
  if (given) {
    process.env.GATEWAY_TEST_POSTGRES_URL = given;
    return async () => {};
  }
  try {
    const server = await startPostgres(await ensurePostgres());
    process.env.GATEWAY_TEST_POSTGRES_URL = server.url;
    return server.stop;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.env.GATEWAY_TEST_POSTGRES_MISSING = reason;
    process.stderr.write(`tests: no PostgreSQL, its tests ${process.env.CI === 'true' ? 'fail' : 'are skipped'}: ${reason}\n`);
    return async () => {};
  }
}

/** Fetches or builds the program, so that no test waits minutes for it; without it the tests that need it say why. */
async function prepareTemporal(): Promise<Stop> {
  await ensureTemporal().catch((error: unknown) => {
    process.stderr.write(`tests: no Temporal, its tests fail: ${error instanceof Error ? error.message : String(error)}\n`);
  });
  return async () => {};
}
