/** Runs the embedder of a service where its configuration uses it: once for all processes of a cluster. */
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
  /** Tells the person who has started the service what memory is searched by; null where nobody reads it. */
  readonly write: ((text: string) => void) | null;
}

export interface Endpoint {
  readonly url: string;
  readonly token: string;
}

export function createSharedLocalEmbedder({ env, logger, onChange, write }: SharedEmbedderOptions) {
  let embedder: Promise<LocalEmbedder> | null = null;
  let isAnnounced = false;
  const start = async ({ localEmbedder: { folder } }: Config): Promise<LocalEmbedder> => {
    const { startLocalEmbedder } = await import('../embedder/supervisor.ts');
    return startLocalEmbedder({
      ...{ folder, cacheDir: cacheDirectory(env), variables: env, logger },
      onChange(isReady) {
        onChange(isReady);
        if (!isReady || isAnnounced) return;
        isAnnounced = true;
        write?.(`\n  Memory search   by meaning, with ${localModelId}\n\n`);
      },
      onUnavailable: (reason) => write?.(`\n  Memory search   by text only: ${localModelId} is not available (${reason})\n\n`),
    });
  };
  return {
    /** Where the embedder responds; it starts at the first call. Null for a configuration that does not use it. */
    async endpointFor(config: Config): Promise<Endpoint | null> {
      if (!config.localEmbedder.isUsed) return null;
      embedder ??= start(config);
      const { url, token } = await embedder;
      return { url, token };
    },
    async stop(): Promise<void> {
      await (await embedder)?.stop();
    },
  };
}
