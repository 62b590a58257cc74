/** Runs the service in the process of the test, because a new process would spend a second on loading. */
import type { Role } from '../../src/app/app.ts';
import { ConfigError } from '../../src/config/config.ts';
import { runMigrations, runService } from '../../src/service/service.ts';
import type { ServiceHost } from '../../src/service/service-host.ts';
import { StartError } from '../../src/service/start-error.ts';
import { adminToken } from './gateway.ts';

interface ServiceRun {
  /** Sends the stop signal. */
  stop(): void;
  /** Resolves when the service has ended. `errors` are the error lines that it would print. */
  readonly ended: Promise<{ readonly output: string; readonly errors: readonly unknown[] }>;
}

/** Runs `gateway <command>` with these environment variables and without logs. */
export function startInProcess(command: Role | 'migrate', env: Readonly<Record<string, string>>): ServiceRun {
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
      GATEWAY_STOP_DELAY_SECONDS: '0',
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
  const running = command === 'migrate' ? runMigrations(host) : runService(command, host);
  const ended = running.then(
    () => ({ output, errors: [] }),
    (error: unknown) => ({
      output,
      errors: error instanceof ConfigError ? error.errors : error instanceof StartError ? [error.message] : [error],
    }),
  );
  return { stop: () => stop.abort(), ended };
}

/** Runs a command that fails, and returns the error lines that it would print. */
export async function errorLinesOf(command: Role | 'migrate', env: Readonly<Record<string, string>>): Promise<readonly unknown[]> {
  const run = startInProcess(command, env);
  const { errors } = await run.ended;
  run.stop();
  return errors;
}
