/**
 * The embedder's process. It loads the model, and serves vectors until its service ends. It has no state, so we stop it
 * by killing it.
 *
 * Its channel to the service closes when the service ends, no matter how. It ignores stop signals, which a terminal or
 * supervisor sends to the whole process group, because running calls of the service still need it.
 */
import type { Server } from 'node:http';
import { Socket } from 'node:net';
import { errorSummary } from '../core/error-messages.ts';
import { type EmbedderMessage, serviceMessage } from './messages.ts';
import { loadModel } from './model.ts';
import { createEmbeddingQueue } from './queue.ts';
import { createEmbeddingServer } from './server.ts';

/** Resolves once the service has ended or the model can't be served. */
export async function runEmbedderProcess(): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  let server: Server | null = null;
  const follow = async (data: unknown, socket: unknown): Promise<void> => {
    const message = serviceMessage.parse(data);
    switch (message.kind) {
      case 'load': {
        const embed = await loadModel(message.files);
        // The first run allocates memory and takes longer, so do it before we're ready.
        await embed('ready');
        server = createEmbeddingServer(createEmbeddingQueue(embed), message.token);
        return send({ kind: 'ready' });
      }
      case 'connection':
        // There is no socket if the caller has disconnected.
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
