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

const failureCause = z.object({
  name: z.string(),
  /** The stack trace. Includes the error's message only if that can't contain text of the request. */
  stack: z.string(),
});
export type FailureCause = z.infer<typeof failureCause>;

export const embedderMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  /**
   * Confirms that the embedder process has taken over a connection. Connections are confirmed in the order in which
   * they were sent.
   */
  z.object({ kind: z.literal('accepted') }),
  /** Reports why a request got a 500, so that the service can log it. */
  z.object({ kind: z.literal('request_failed'), cause: failureCause }),
  /** The embedder process sends this just before it exits. */
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);
export type EmbedderMessage = z.infer<typeof embedderMessage>;
