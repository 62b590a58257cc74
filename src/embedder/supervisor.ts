/**
 * Runs the local embedder of a service. It provides the files, starts the process, and restarts it if it dies. All of
 * this happens in the background, and the service doesn't wait for it when it starts or stops.
 *
 * The address is fixed from the start, so that you can configure it as a provider. While the process isn't running, it
 * responds with 503. The service holds the port and passes connections on, so no other program can bind the port if the
 * process dies.
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
  /** The base URL of the provider. */
  readonly url: string;
  /** The provider's API key, which other programs on the machine don't know. */
  readonly token: string;
  /** Retries immediately instead of waiting for the backoff. */
  retry(): void;
  stop(): Promise<void>;
}

export interface LocalEmbedderOptions extends Pick<InstallOptions, 'folder' | 'cacheDir' | 'variables'> {
  readonly logger: Logger;
  /** Called when the model becomes available or unavailable. */
  readonly onChange: (isReady: boolean) => void;
  /** Called with one sentence on the first failure to provide or load the files. */
  readonly onUnavailable: (reason: string) => void;
}

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const startTimeoutMs = 60_000;
/** The delay before we try to fetch the files again. */
const fetchBackoff = { initialMs: 30_000, maxMs: 3_600_000 };
const restartBackoff = { initialMs: 250, maxMs: 60_000 };
/** If the process was up for this long, we reset the number of crashes. */
const healthyAfterMs = 60_000;
/** The weights are outside of V8's heap. The heap contains the requests, whose size is limited. */
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

  /** Runs the process until it ends. Rejects if it doesn't become ready. */
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
      // `provideFiles` doesn't notice a stop while it hashes existing files.
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
      logger.warn(fields, 'local embedder unavailable; searching memory by text only');
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

/**
 * Starts the process without any environment variables, so that it doesn't see vendor keys, and in its own session, so
 * that it doesn't receive Ctrl-C from a terminal.
 */
function startProcess(): ChildProcess {
  return fork(main, ['embedder'], { env: {}, execArgv: [heapLimit], stdio: ['ignore', 'ignore', 'ignore', 'ipc'], detached: true });
}

/** Resolves when the process is ready. Rejects if it fails, ends or takes too long. */
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
