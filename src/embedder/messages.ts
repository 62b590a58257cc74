/** Messages between a service and the process of its embedder. */
import { z } from 'zod';

export const serviceMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('load'), files: z.object({ weights: z.string(), tokenizer: z.string(), runtime: z.string() }) }),
  z.object({ kind: z.literal('listen'), port: z.number(), token: z.string() }),
]);
export type ServiceMessage = z.infer<typeof serviceMessage>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('loaded') }),
  z.object({ kind: z.literal('listening') }),
  /** It ends after this message. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
