import { z } from 'zod';
import { localModels } from '../core/local-model.ts';

const embedderFiles = z.object({
  models: z.array(z.object({ name: z.enum(localModels), weights: z.string(), tokenizer: z.string() })).readonly(),
  /** The folder whose `node_modules` contains the runtime. */
  runtime: z.string(),
});

export type EmbedderFiles = z.infer<typeof embedderFiles>;

export const serviceMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('load'), files: embedderFiles, token: z.string() }),
  /** Passes on a connection to the embedder. Its socket is sent along with the message. */
  z.object({ kind: z.literal('connection') }),
]);
export type ServiceMessage = z.infer<typeof serviceMessage>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  /**
   * Confirms that the embedder process has taken over a connection. Connections are confirmed in the order in which
   * they were sent.
   */
  z.object({ kind: z.literal('accepted') }),
  /** The embedder process sends this just before it exits. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
