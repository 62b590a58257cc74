/**
 * Runs a service's local embedder. It downloads the files, starts the process, and restarts it if it dies. All of this
 * happens in the background, so the service doesn't have to wait for it at startup or shutdown. If the process isn't
 * running, requests get a 503.
 *
 * The address is known from the start, so that it can be configured as a provider. The service itself holds the port
 * and passes connections on. Otherwise, another program could bind the port when the process dies.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { createBackgroundLoop } from '../core/background-loop.ts';
import { backoffMs } from '../core/backoff.ts';
import { errorSummary } from '../core/error-messages.ts';
import { toLocalModelId } from '../core/local-model.ts';
import { withTimeout } from '../core/time-limit.ts';
import { type InstallOptions, provideFiles } from './install.ts';
import { openListener } from './listener.ts';
import { type EmbedderFiles, embedderMessage, type ServiceMessage } from './messages.ts';

export type LocalEmbedder = Awaited<ReturnType<typeof startLocalEmbedder>>;

export interface LocalEmbedderOptions extends Pick<InstallOptions, 'models' | 'folder' | 'cacheDir' | 'variables' | 'logger'> {
  /** Called when the models become available or unavailable. */
  readonly onChange: (isReady: boolean) => void;
  /** Called once with an explanation, the first time that the files can't be fetched or loaded. */
  readonly onUnavailable: (reason: string) => void;
}

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const startTimeoutMs = 60_000;
const fetchBackoff = { initialMs: 30_000, maxMs: 3_600_000 };
const restartBackoff = { initialMs: 250, maxMs: 60_000 };
/** After a crash, the restart backoff starts over if the embedder process ran for at least this long. */
const healthyAfterMs = 60_000;
/**
 * The heap limit of the embedder process. It can be this low because the model's weights live outside of the V8 heap,
 * and because the size of the requests is limited.
 */
const heapLimit = '--max-old-space-size=160';

export async function startLocalEmbedder(options: LocalEmbedderOptions) {
  const { models, folder, cacheDir, variables, logger, onChange, onUnavailable } = options;
  const model = models.map(toLocalModelId).join();
  const token = randomBytes(32).toString('base64url');
  const listener = await openListener();
  let isReady = false;
  let crashes = 0;
  const setReady = (next: boolean): void => {
    if (next === isReady) return;
    isReady = next;
    onChange(next);
  };

  /** Runs the embedder process until it exits. Rejects if it doesn't become ready. */
  const runProcess = async (files: EmbedderFiles, signal: AbortSignal): Promise<void> => {
    const startedAt = performance.now();
    const child = startProcess();
    const kill = (): void => void child.kill('SIGKILL');
    signal.addEventListener('abort', kill);
    const exited = new Promise<string>((resolve) => {
      child
        .once('exit', (code, ended) => resolve(`it exited with ${ended ?? code}`))
        .once('error', (error) => resolve(errorSummary(error)));
    });
    try {
      await load(child, { kind: 'load', files, token });
      child.on('message', (data) => {
        const message = embedderMessage.parse(data);
        if (message.kind === 'request_failed') logger.error({ model, err: message.cause }, 'local embedder failed to serve a request');
      });
      listener.passTo(child);
      logger.info({ model, durationMs: Math.round(performance.now() - startedAt) }, 'local embedder ready');
      setReady(true);
      const reason = await exited;
      if (performance.now() - startedAt > healthyAfterMs) crashes = 0;
      signal.throwIfAborted();
      logger.error({ model, reason }, 'local embedder died; restarting it');
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
      const files = await provideFiles({ models, folder, cacheDir, variables, logger, signal });
      // `provideFiles` doesn't check the signal while it's hashing files, so it can succeed even though the signal was
      // aborted.
      signal.throwIfAborted();
      await runProcess(files, signal);
      crashes += 1;
      return backoffMs(crashes, restartBackoff);
    },
    intervalMs: null,
    backoff: fetchBackoff,
    onFirstFailure: (error) => onUnavailable(errorSummary(error)),
    onFailure: (err, failures) => {
      const fields = { model, err, backoffMs: backoffMs(failures, fetchBackoff) };
      logger.warn(fields, 'local embedder unavailable; searching memory by text only');
    },
  });
  loop.start();
  return {
    url: `http://127.0.0.1:${listener.port}/v1`,
    /**
     * The API key of the local provider. It's only known to this process, so other programs on the machine can't use
     * the embedder.
     */
    token,
    /** Retries immediately instead of waiting for the backoff. */
    retry(): void {
      if (loop.isFailing) loop.wake();
    },
    async stop(): Promise<void> {
      await loop.stop();
      listener.close();
    },
  };
}

/**
 * Starts the process with an empty environment, so that it can't see vendor keys. It runs in its own session, so that
 * Ctrl-C in a terminal doesn't stop it.
 */
function startProcess(): ChildProcess {
  return fork(main, ['embedder'], { env: {}, execArgv: [heapLimit], stdio: ['ignore', 'ignore', 'ignore', 'ipc'], detached: true });
}

/** Resolves when the process is ready. Rejects if it fails, exits or takes too long. */
async function load(child: ChildProcess, message: ServiceMessage): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const receive = (data: unknown): void => {
    const received = embedderMessage.parse(data);
    if (received.kind === 'failed') reject(new Error(received.reason));
    else resolve();
  };
  const end = (code: number | null, signal: string | null): void => reject(new Error(`the process exited with ${signal ?? code}`));
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
