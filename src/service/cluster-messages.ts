/** What the parent of a set of API processes and its members tell each other over their channel (process-set.ts, set-member.ts). */
import { z } from 'zod';

/** What a member's configuration is made of, besides the environment that it inherits. */
const snapshot = z.object({
  /** The text of gateway.yaml as it came into force; null for none. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** Where the set's demo vendor answers; null when it has none. */
  demoUrl: z.string().nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** From the parent: what this member is; then each time that the configuration shall be read again. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** Its place in the set, from 1; a process that replaces a dead one has the same. */
    place: z.number(),
    /** The first process of the set's first start: it says how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;

/** From a member: it answers calls. */
export const workerMessage = z.object({ kind: z.literal('up'), url: z.string() });
export type WorkerMessage = z.infer<typeof workerMessage>;
