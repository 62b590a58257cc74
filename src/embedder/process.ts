/**
 * The embedder process. It loads the models, and serves vectors until its IPC channel closes, which happens when the
 * service ends for any reason.
 *
 * It has no state, so the service can simply kill it. If a terminal or supervisor sends a stop signal to the whole
 * process group, the embedder ignores it, because the service still needs vectors for calls that are in progress.
 */
import type { Server } from 'node:http';
import { Socket } from 'node:net';
import { errorSummary } from '../core/error-messages.ts';
import { type EmbedderMessage, serviceMessage } from './messages.ts';
import { loadModels } from './model.ts';
import { createEmbeddingQueue } from './queue.ts';
import { createEmbeddingServer } from './server.ts';

/** Resolves once the service has ended, or if a model can't be loaded. */
export async function runEmbedderProcess(): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  let server: Server | null = null;
  const follow = async (data: unknown, socket: unknown): Promise<void> => {
    const message = serviceMessage.parse(data);
    switch (message.kind) {
      case 'load': {
        const models = await loadModels(message.files);
        // The first run is slow because it allocates memory, so do it before reporting that the process is ready.
        for (const embed of models.values()) await embed('ready');
        server = createEmbeddingServer({
          ...{ models, queue: createEmbeddingQueue(), token: message.token },
          onFailure: (cause) => send({ kind: 'request_failed', cause }),
        });
        return send({ kind: 'ready' });
      }
      case 'connection':
        // The socket is missing if the caller has already disconnected.
        if (socket instanceof Socket) server?.emit('connection', socket);
        return send({ kind: 'accepted' });
    }
  };
  process.on('message', (data: unknown, socket: unknown) => {
    follow(data, socket).catch((error: unknown) => send({ kind: 'failed', reason: errorSummary(error) }, end));
  });
  await ended;
}

function send(message: EmbedderMessage, onSent = (): void => undefined): void {
  process.send?.(message, onSent);
}
