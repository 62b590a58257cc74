/** Messages between a cluster's parent (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** Everything a process's configuration is made of, except the environment, which it inherits. */
const snapshot = z.object({
  /** Text of gateway.yaml as the parent last read it; null without a file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** Secrets that the parent last read from files. */
  secrets: z.object({ values: z.record(z.string(), z.string()).readonly(), errors: z.array(z.string()).readonly() }),
  /** URL of the cluster's demo vendor; null without one. */
  demoUrl: z.string().nullable(),
  /** The cluster's embedder; null without one. */
  localEmbedder: z.object({ url: z.string(), token: z.string() }).nullable(),
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
  /** Whether the cluster's embedder responds; sent at each change. */
  z.object({ kind: z.literal('embedder'), isReady: z.boolean() }),
  /** Answer with the metrics of this process. */
  z.object({ kind: z.literal('collect metrics'), id: z.number() }),
  /** The text for the worker's `read metrics`. */
  z.object({ kind: z.literal('metrics'), id: z.number(), text: z.string() }),
]);
export type ParentMessage = z.infer<typeof parentMessage>;

const metricFamily = z.object({
  name: z.string(),
  help: z.string(),
  type: z.enum(['counter', 'gauge', 'histogram']),
  aggregator: z.enum(['sum', 'max', 'min']),
  values: z
    .array(z.object({ value: z.number(), labels: z.record(z.string(), z.string()), metricName: z.string().exactOptional() }))
    .readonly(),
});

export const workerMessage = z.discriminatedUnion('kind', [
  /** It serves calls. */
  z.object({ kind: z.literal('up'), url: z.string() }),
  /** The answer to `collect metrics`. */
  z.object({ kind: z.literal('collected'), id: z.number(), families: z.array(metricFamily).readonly() }),
  /** Its port was asked for the metrics of all processes. */
  z.object({ kind: z.literal('read metrics'), id: z.number() }),
]);
export type WorkerMessage = z.infer<typeof workerMessage>;
