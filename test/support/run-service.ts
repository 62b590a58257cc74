/** Runs the service in the test's own process. A new process would take a second to load. */
import type { Role } from '../../src/app/app.ts';
import { ConfigError } from '../../src/config/config.ts';
import { runMigrations, runService } from '../../src/service/service.ts';
import type { ServiceHost } from '../../src/service/service-host.ts';
import { StartError } from '../../src/service/start-error.ts';
import { adminToken } from './gateway.ts';

/**
 * Runs `gateway <command>` with these environment variables and without logs, until it ends by itself. `errors` are the
 * error lines that it would print.
 */
export async function runInProcess(
  command: Role | 'migrate',
  env: Readonly<Record<string, string>>,
): Promise<{ readonly output: string; readonly errors: readonly unknown[] }> {
  const stop = new AbortController();
  let output = '';
  const host: ServiceHost = {
    env: {
      HOST: '127.0.0.1',
      PORT: '0',
      LOG_LEVEL: 'silent',
      GATEWAY_TEMPORAL: 'off',
      GATEWAY_LOCAL_EMBEDDER: 'off',
      GATEWAY_ADMIN_TOKEN: adminToken,
      ...env,
    },
    write: (text) => {
      output += text;
    },
    writeError: () => undefined,
    isTerminal: false,
    stopping: stop.signal,
    onReload: () => undefined,
    clusterWorker: null,
  };
  try {
    await (command === 'migrate' ? runMigrations(host) : runService(command, host));
    return { output, errors: [] };
  } catch (error) {
    return { output, errors: error instanceof ConfigError ? error.errors : error instanceof StartError ? [error.message] : [error] };
  } finally {
    stop.abort();
  }
}

/** Runs a command that fails, and returns the error lines that it would print. */
export const errorLinesOf = async (...args: Parameters<typeof runInProcess>): Promise<readonly unknown[]> =>
  (await runInProcess(...args)).errors;
