/** Messages between a service and its embedder's process. */
import { z } from 'zod';

export const serviceMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('load'),
    files: z.object({ weights: z.string(), tokenizer: z.string(), runtime: z.string() }),
    /** The token that requests must contain. */
    token: z.string(),
  }),
  /** Sent together with the socket of a caller. */
  z.object({ kind: z.literal('connection') }),
]);
export type ServiceMessage = z.infer<typeof serviceMessage>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  /** The process has accepted a connection. It accepts them in the order in which they were sent. */
  z.object({ kind: z.literal('accepted') }),
  /** The process ends after this message. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
