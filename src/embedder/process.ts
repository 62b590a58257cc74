/**
 * The process of the embedder: loads the model, and serves vectors until its service ends. It keeps no state, so it is killed to stop it.
 *
 * Its channel to the service closes when the service ends, however that dies. It ignores stop signals, which a terminal or a supervisor sends to
 * the whole group: running calls of the service still need it.
 */
import { errorSummary } from '../core/error-messages.ts';
import { type EmbedderMessage, serviceMessage } from './messages.ts';
import { type Embed, loadModel } from './model.ts';
import { createEmbeddingQueue } from './queue.ts';
import { serveEmbeddings } from './server.ts';

/** Resolves when the service has ended, or when the model cannot be served. */
export async function runEmbedderProcess(): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', end);
  const send = (message: EmbedderMessage): void => void process.send?.(message, () => undefined);
  let embed: Embed | null = null;
  const follow = async (data: unknown): Promise<void> => {
    const message = serviceMessage.parse(data);
    switch (message.kind) {
      case 'load':
        embed = await loadModel(message.files);
        // The first run allocates memory and takes longer.
        await embed('ready');
        return send({ kind: 'loaded' });
      case 'listen':
        if (!embed) throw new Error('no model is loaded');
        await serveEmbeddings(createEmbeddingQueue(embed), message);
        return send({ kind: 'listening' });
    }
  };
  process.on('message', (data: unknown) => {
    follow(data).catch((error: unknown) => {
      const failed: EmbedderMessage = { kind: 'failed', reason: errorSummary(error) };
      process.send?.(failed, () => end());
    });
  });
  await ended;
}
