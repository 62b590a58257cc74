/** Messages between a cluster's parent (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** Everything a process's configuration is made of, except the environment, which it inherits. */
const snapshot = z.object({
  /** Text of gateway.yaml as the parent last read it; null without a file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** Secrets that the parent last read from files. */
  secrets: z.object({ values: z.record(z.string(), z.string()), errors: z.array(z.string()) }),
  /** URL of the cluster's demo vendor; null without one. */
  demoUrl: z.string().nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** From the parent: first the process's role in the cluster, then every new configuration. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** Slot in the cluster, from 1; a replacement keeps the slot of the dead process. */
    place: z.number(),
    /** True for the first process of the cluster's start, which prints how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;

/** From an API process: it serves calls. */
export const workerMessage = z.object({ kind: z.literal('up'), url: z.string() });
export type WorkerMessage = z.infer<typeof workerMessage>;
