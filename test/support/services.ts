/**
 * Starts the services that all tests share before the first test, and stops them after the last one. Test files find
 * them in the environment.
 */
import { readdir } from 'node:fs/promises';
import { prepareEmbeddedTemplate } from './embedded-template.ts';
import { gatewayFlags, shortLived } from './gateway-process.ts';
import { ensurePostgres } from './postgres-install.ts';
import { startPostgres } from './postgres-server.ts';
import { createPostgresTemplate } from './postgres-template.ts';
import { run } from './run.ts';
import { ensureTemporal } from './temporal-program.ts';
import { prepareTestBundle } from './workflow-bundle.ts';

/** Stops everything that was started. */
export type Stop = () => Promise<void>;

/** Starts all services concurrently. If one of them fails, the others are stopped. */
export async function startServices(): Promise<Stop> {
  const starting = await Promise.allSettled([preparePostgres(), prepareEmbeddedTemplate(), prepareTemporal(), prepareCompiledCode()]);
  const stops = starting.flatMap((service) => (service.status === 'fulfilled' ? [service.value] : []));
  const stop: Stop = async () => {
    await Promise.all(stops.map((end) => end()));
  };
  const failure = starting.find((service) => service.status === 'rejected');
  if (failure === undefined) return stop;
  await stop();
  throw failure.reason;
}

/**
 * Never fails. If there's no server, we put the reason into the environment, and postgres.ts skips or fails its tests.
 */
async function preparePostgres(): Promise<Stop> {
  const given = process.env.DATABASE_URL;
  // Services that tests start can't connect to this server.
  delete process.env.DATABASE_URL;
  try {
    const server = given ? { url: given, stop: async () => {} } : await startPostgres(await ensurePostgres());
    process.env.GATEWAY_TEST_POSTGRES_URL = server.url;
    const template = await createPostgresTemplate();
    process.env.GATEWAY_TEST_POSTGRES_TEMPLATE = template.name;
    return async () => {
      await template.drop();
      await server.stop();
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.env.GATEWAY_TEST_POSTGRES_MISSING = reason;
    process.stderr.write(`tests: no PostgreSQL, its tests ${process.env.CI === 'true' ? 'fail' : 'are skipped'}: ${reason}\n`);
    return async () => {};
  }
}

/**
 * Installs the program, so that no test has to wait minutes for it. Also builds the workflow bundle, because several
 * tests would build it at the same time. If something is missing, the tests that need it fail with the reason.
 */
async function prepareTemporal(): Promise<Stop> {
  const bundle = prepareTestBundle().catch(() => '');
  await ensureTemporal().catch((error: unknown) => {
    process.stderr.write(`tests: no Temporal, its tests fail: ${error instanceof Error ? error.message : String(error)}\n`);
  });
  await bundle;
  return async () => {};
}

/**
 * Fills Node's compile cache if the checkout is new. A process only adds its compiled code when it ends. Without this,
 * all workers and gateways in the first minutes would compile everything, which is half of their start. There's a
 * separate cache for each set of V8 flags on the command line. If a module can't be loaded, its tests fail.
 */
async function prepareCompiledCode(): Promise<Stop> {
  const cached = await readdir(process.env.NODE_COMPILE_CACHE ?? '', { recursive: true }).catch(() => []);
  const load = `for (const module of ['./src/app/app.ts', './src/service/service.ts', '@temporalio/worker']) await import(module)`;
  const cwd = new URL('../..', import.meta.url).pathname;
  const compile = (flags: readonly string[]): Promise<string> =>
    run(process.execPath, [...flags, ...gatewayFlags, '--input-type=module', '--eval', load], { cwd }).catch(() => '');
  if (cached.length < 1_000) await Promise.all([compile([]), compile(shortLived)]);
  return async () => {};
}
