/** Runs the local embedder if the configuration uses it. A cluster has one for all of its processes. */
import { resolve } from 'node:path';
import { cacheDirectory } from '../config/cache-directory.ts';
import type { Config } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { localModelId } from '../core/local-model.ts';
import type { LocalEmbedder } from '../embedder/supervisor.ts';
import type { Logger } from '../observability/logger.ts';

interface SharedEmbedderOptions {
  readonly env: Environment;
  readonly logger: Logger;
  readonly onChange: (isReady: boolean) => void;
  /**
   * How long the embedder keeps running after a new configuration stops using it, because running calls may still need
   * it.
   */
  readonly stopDelayMs?: number;
}

export interface Endpoint {
  readonly url: string;
  readonly token: string;
}

export type SharedLocalEmbedder = ReturnType<typeof createSharedLocalEmbedder>;

export function createSharedLocalEmbedder({ env, logger, onChange, stopDelayMs = 120_000 }: SharedEmbedderOptions) {
  let embedder: Promise<LocalEmbedder> | null = null;
  /** The status that hasn't been announced yet. */
  let status: string | null = null;
  let announce: ((status: string) => void) | null = null;
  const report = (text: string): void => {
    if (announce) announce(text);
    else status = text;
  };
  let isKnownReady = false;
  const start = async ({ localEmbedder: { folder } }: Config): Promise<LocalEmbedder> => {
    const { startLocalEmbedder } = await import('../embedder/supervisor.ts');
    return startLocalEmbedder({
      // The runtime needs an absolute path.
      ...{ folder: folder === null ? null : resolve(folder), cacheDir: cacheDirectory(env), variables: env, logger },
      onChange(isReady) {
        onChange(isReady);
        if (isReady && !isKnownReady) report(`by meaning, with ${localModelId}`);
        isKnownReady ||= isReady;
      },
      onUnavailable: (reason) => report(`by text only: ${localModelId} is not available (${reason})`),
    });
  };
  let stopTimer: NodeJS.Timeout | undefined;
  const stop = async (): Promise<void> => {
    clearTimeout(stopTimer);
    const stopped = embedder;
    embedder = null;
    await (await stopped)?.stop();
  };
  return {
    /**
     * Returns where the embedder responds. The first call for a configuration that uses it starts the embedder, and
     * each further call retries a failed start. If the configuration doesn't use it, this returns null and stops the
     * embedder after a delay.
     */
    async endpointFor(config: Config): Promise<Endpoint | null> {
      clearTimeout(stopTimer);
      if (!config.localEmbedder.isUsed) {
        if (embedder) stopTimer = setTimeout(() => void stop(), stopDelayMs).unref();
        return null;
      }
      embedder ??= start(config);
      const { url, token, retry } = await embedder;
      retry();
      return { url, token };
    },
    /** Returns the status in one line for the person who started the service, or null if there is nothing new. */
    takeStatus(): string | null {
      const taken = status;
      status = null;
      return taken;
    },
    /** Calls `listener` with each status that `takeStatus` hasn't returned. */
    onStatus(listener: (status: string) => void): void {
      announce = listener;
      if (status !== null) listener(status);
      status = null;
    },
    stop,
  };
}

/** Formats a status that is printed after the banner. */
export function formatStatus(status: string): string {
  return `\n  Memory search   ${status}\n\n`;
}

/** Describes for the banner how memory is searched with this configuration. `status` comes from `takeStatus`. */
export function describeMemorySearch({ localEmbedder, tiers }: Config, status: string | null): string {
  const [model] = tiers['memory-embed'] ?? tiers.embed ?? [];
  if (model === undefined) return 'by text only: no embeddings are configured';
  if (model !== localModelId || !localEmbedder.isUsed) return `by meaning, with ${model}`;
  return status ?? `by text until ${model} is loaded (the first time it is fetched, 150 MB)`;
}
