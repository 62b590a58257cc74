/** Messages between a service and the process of its embedder. */
import { z } from 'zod';

export const serviceMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('load'),
    files: z.object({ weights: z.string(), tokenizer: z.string(), runtime: z.string() }),
    /** What requests must have. */
    token: z.string(),
  }),
  /** With the socket of a caller. */
  z.object({ kind: z.literal('connection') }),
]);
export type ServiceMessage = z.infer<typeof serviceMessage>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  /** A connection was taken over, in the order in which they were sent. */
  z.object({ kind: z.literal('accepted') }),
  /** It ends after this message. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
