/** Messages between a service and its embedder process. */
import { z } from 'zod';
import { localModels } from '../core/local-model.ts';

export const serviceMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('load'),
    files: z.object({
      models: z.array(z.object({ name: z.enum(localModels), weights: z.string(), tokenizer: z.string() })).readonly(),
      runtime: z.string(),
    }),
    token: z.string(),
  }),
  /** Hands over the connection of a caller. The socket is attached to the message. */
  z.object({ kind: z.literal('connection') }),
]);
export type ServiceMessage = z.infer<typeof serviceMessage>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  /**
   * Confirms that the embedder process has taken over a connection. Connections are confirmed in the order in which we
   * sent them.
   */
  z.object({ kind: z.literal('accepted') }),
  /** Sent just before the process exits. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
