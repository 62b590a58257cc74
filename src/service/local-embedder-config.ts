/** Runs the local embedder if the configuration uses it. The processes of a cluster share one embedder. */
import { resolve } from 'node:path';
import { cacheDirectory } from '../config/cache-directory.ts';
import type { Config } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { findLocalModel, type LocalModel, toLocalModelId } from '../core/local-model.ts';
import type { LocalEmbedder } from '../embedder/supervisor.ts';
import type { Logger } from '../observability/logger.ts';

interface SharedEmbedderOptions {
  readonly env: Environment;
  readonly logger: Logger;
  readonly onChange: (isReady: boolean) => void;
  /**
   * If a configuration reload removes an embedder, it keeps running for this many milliseconds, because calls may still
   * be using it.
   */
  readonly stopDelayMs?: number;
}

export interface Endpoint {
  readonly url: string;
  readonly token: string;
}

interface Running {
  readonly models: readonly LocalModel[];
  readonly embedder: Promise<LocalEmbedder>;
  isReady: boolean;
  stopTimer?: NodeJS.Timeout;
}

export type SharedLocalEmbedder = ReturnType<typeof createSharedLocalEmbedder>;

export function createSharedLocalEmbedder({ env, logger, onChange, stopDelayMs = 120_000 }: SharedEmbedderOptions) {
  let current: Running | null = null;
  /** Embedders that a reload has replaced. They're stopped after `stopDelayMs`. */
  const replaced = new Set<Running>();
  let status: string | null = null;
  let announce: ((status: string) => void) | null = null;
  const report = (text: string): void => {
    if (announce) announce(text);
    else status = text;
  };
  const start = ({ models, folder }: Config['localEmbedder']): Running => {
    const ids = models.map(toLocalModelId).join(' and ');
    let isKnownReady = false;
    const begin = async (): Promise<LocalEmbedder> => {
      const { startLocalEmbedder } = await import('../embedder/supervisor.ts');
      return startLocalEmbedder({
        models,
        // Use an absolute path, because the embedder's process has a different working directory.
        ...{ folder: folder === null ? null : resolve(folder), cacheDir: cacheDirectory(env), variables: env, logger },
        onChange(isReady) {
          running.isReady = isReady;
          if (running !== current) return;
          onChange(isReady);
          if (isReady && !isKnownReady) report(`by meaning, with ${ids}`);
          isKnownReady ||= isReady;
        },
        onUnavailable: (reason) => report(`by text only: ${ids} is not available (${reason})`),
      });
    };
    const running: Running = { models, embedder: begin(), isReady: false };
    return running;
  };
  const stop = async (running: Running): Promise<void> => {
    clearTimeout(running.stopTimer);
    replaced.delete(running);
    await (await running.embedder).stop();
  };
  const retire = (running: Running): void => {
    replaced.add(running);
    running.stopTimer = setTimeout(() => void stop(running), stopDelayMs).unref();
  };
  const follow = (settings: Config['localEmbedder']): void => {
    const models = settings.models.join();
    if (models === (current?.models.join() ?? '')) return;
    if (current) retire(current);
    const kept = [...replaced].find((running) => running.models.join() === models);
    if (kept) {
      clearTimeout(kept.stopTimer);
      replaced.delete(kept);
    }
    current = kept ?? (settings.models.length > 0 ? start(settings) : null);
    onChange(current?.isReady ?? false);
  };
  return {
    /**
     * Returns the embedder's address, or null if the configuration uses no local model. If the models have changed,
     * starts a new embedder and stops the previous one after a delay. If the embedder can't start, the next call tries
     * again.
     */
    async endpointFor({ localEmbedder }: Config): Promise<Endpoint | null> {
      follow(localEmbedder);
      if (!current) return null;
      const { url, token, retry } = await current.embedder;
      retry();
      return { url, token };
    },
    /** Returns the latest status, but only once. After that, returns null until there's a new status. */
    takeStatus(): string | null {
      const taken = status;
      status = null;
      return taken;
    },
    /** Calls `listener` for each new status, and right away if there's a status that nobody has taken yet. */
    onStatus(listener: (status: string) => void): void {
      announce = listener;
      if (status !== null) listener(status);
      status = null;
    },
    async stop(): Promise<void> {
      const all = [...replaced, ...(current ? [current] : [])];
      current = null;
      await Promise.all(all.map(stop));
    },
  };
}

export function formatStatus(status: string): string {
  return `\n  Memory search   ${status}\n\n`;
}

export function describeMemorySearch({ localEmbedder, tiers }: Config, status: string | null): string {
  const [model] = tiers['memory-embed'] ?? tiers.embed ?? [];
  if (model === undefined) return 'by text only: no embeddings are configured';
  const local = findLocalModel(model);
  if (local === null || !localEmbedder.models.includes(local)) return `by meaning, with ${model}`;
  return status ?? `by text until ${model} is loaded (the first time it is fetched, 150 MB)`;
}
