/**
 * The local embedder of a service: provides its files, runs its process and restarts it when it dies. Everything happens in the background; the
 * start and the stop of the service wait for none of it.
 *
 * The address is fixed from the start, so that it can be configured as a provider; while the process does not run, it responds with 503. The
 * service holds the port and passes connections on, so no other program can take the port when the process dies.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { createBackgroundLoop } from '../core/background-loop.ts';
import { backoffMs } from '../core/backoff.ts';
import { errorSummary } from '../core/error-messages.ts';
import { localModelId } from '../core/local-model.ts';
import { withTimeout } from '../core/time-limit.ts';
import type { Logger } from '../observability/logger.ts';
import type { EmbedderFiles } from './find-files.ts';
import { type InstallOptions, provideFiles } from './install.ts';
import { openListener } from './listener.ts';
import { embedderMessage, type ServiceMessage } from './messages.ts';

export interface LocalEmbedder {
  /** Base address of the provider. */
  readonly url: string;
  /** Its API key, which other programs of the machine do not know. */
  readonly token: string;
  /** Tries at once what would be tried again later. */
  retry(): void;
  stop(): Promise<void>;
}

export interface LocalEmbedderOptions extends Pick<InstallOptions, 'folder' | 'cacheDir' | 'variables'> {
  readonly logger: Logger;
  /** Called when the model begins to respond, and when it stops to. */
  readonly onChange: (isReady: boolean) => void;
  /** Called at the first failure to provide the files or to load them, with one sentence. */
  readonly onUnavailable: (reason: string) => void;
}

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const startTimeoutMs = 60_000;
/** Until files are fetched again. */
const fetchBackoff = { initialMs: 30_000, maxMs: 3_600_000 };
const restartBackoff = { initialMs: 250, maxMs: 60_000 };
/** An uptime this long resets the count of crashes. */
const healthyAfterMs = 60_000;
/** The weights are outside of V8's heap; the heap holds requests, which are bounded. */
const heapLimit = '--max-old-space-size=160';

export async function startLocalEmbedder(options: LocalEmbedderOptions): Promise<LocalEmbedder> {
  const { folder, cacheDir, variables, logger, onChange, onUnavailable } = options;
  const token = randomBytes(32).toString('base64url');
  const listener = await openListener();
  let isReady = false;
  let crashes = 0;
  const setReady = (next: boolean): void => {
    if (next === isReady) return;
    isReady = next;
    onChange(next);
  };

  /** One life of the process; rejects when it does not become ready. */
  const runProcess = async (files: EmbedderFiles, signal: AbortSignal): Promise<void> => {
    const startedAt = performance.now();
    const child = startProcess();
    const kill = (): void => void child.kill('SIGKILL');
    signal.addEventListener('abort', kill);
    const exited = new Promise<string>((resolve) => {
      child.once('exit', (code, ended) => resolve(`it ended with ${ended ?? code}`)).once('error', (error) => resolve(errorSummary(error)));
    });
    try {
      await load(child, { kind: 'load', files, token });
      listener.passTo(child);
      logger.info({ model: localModelId, durationMs: Math.round(performance.now() - startedAt) }, 'local embedder ready');
      setReady(true);
      const reason = await exited;
      if (performance.now() - startedAt > healthyAfterMs) crashes = 0;
      signal.throwIfAborted();
      logger.error({ model: localModelId, reason }, 'local embedder died; restarting it');
    } finally {
      signal.removeEventListener('abort', kill);
      listener.passTo(null);
      kill();
      await exited;
      setReady(false);
    }
  };

  const loop = createBackgroundLoop({
    async run(signal) {
      const files = await provideFiles({ folder, cacheDir, variables, logger, signal });
      // A stop while the hashes of existing files are computed is not noticed there.
      signal.throwIfAborted();
      await runProcess(files, signal);
      crashes += 1;
      return backoffMs(crashes, restartBackoff);
    },
    intervalMs: null,
    backoff: fetchBackoff,
    onFirstFailure: (error) => onUnavailable(errorSummary(error)),
    onFailure: (err, failures) => {
      const fields = { model: localModelId, err, backoffMs: backoffMs(failures, fetchBackoff) };
      logger.warn(fields, 'local embedder unavailable; memory is searched by text until it is there');
    },
  });
  loop.start();
  return {
    url: `http://127.0.0.1:${listener.port}/v1`,
    token,
    retry() {
      if (loop.isFailing) loop.wake();
    },
    async stop() {
      await loop.stop();
      listener.close();
    },
  };
}

/** Without any variable of the environment: vendors' keys are not for it. In its own session: Ctrl-C of a terminal is not for it either. */
function startProcess(): ChildProcess {
  return fork(main, ['embedder'], { env: {}, execArgv: [heapLimit], stdio: ['ignore', 'ignore', 'ignore', 'ipc'], detached: true });
}

/** Resolves when the process is ready; rejects when it fails, ends or takes too long. */
async function load(child: ChildProcess, message: ServiceMessage): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const receive = (data: unknown): void => {
    const received = embedderMessage.parse(data);
    if (received.kind === 'failed') reject(new Error(received.reason));
    else resolve();
  };
  const end = (code: number | null, signal: string | null): void => reject(new Error(`the process ended with ${signal ?? code}`));
  child.on('message', receive).once('exit', end).once('error', reject);
  child.send(message, () => undefined);
  const late = (): never => {
    throw new Error(`the process did not respond within ${startTimeoutMs / 1_000} seconds`);
  };
  try {
    await withTimeout(promise, startTimeoutMs, late);
  } finally {
    child.off('message', receive).off('exit', end);
  }
}
