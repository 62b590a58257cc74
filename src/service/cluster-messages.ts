/** Messages between the parent of a cluster (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** Everything that a process needs to configure itself, apart from the environment that it inherits. */
const snapshot = z.object({
  /** The text of gateway.yaml, as last read by the parent. Null if there is no file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** The contents of all secret files when the parent last read them. */
  secrets: z.object({ values: z.record(z.string(), z.string()).readonly(), errors: z.array(z.string()).readonly() }),
  /** The URL of the cluster's demo vendor, or null if there is none. */
  demoUrl: z.string().nullable(),
  /** Null if the cluster runs no embedder. */
  localEmbedder: z.object({ url: z.string(), token: z.string() }).nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** The messages that the parent sends. It always sends `begin` first. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** The slot in the cluster, starting at 1. A replacement gets the slot of the dead process. */
    place: z.number(),
    /** True in the first process of a new cluster, which prints how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
  /** Tells a process whether the cluster's embedder responds. Sent whenever this changes. */
  z.object({ kind: z.literal('embedder'), isReady: z.boolean() }),
  /** Asks this process for its metrics. */
  z.object({ kind: z.literal('collect metrics'), id: z.number() }),
  /** The response to `read metrics`. */
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
  /** The process is ready to serve calls at this URL. */
  z.object({ kind: z.literal('up'), url: z.string() }),
  /** The response to `collect metrics`. */
  z.object({ kind: z.literal('collected'), id: z.number(), families: z.array(metricFamily).readonly() }),
  /** Requests the metrics of all processes, because a scrape has reached this process. */
  z.object({ kind: z.literal('read metrics'), id: z.number() }),
]);
export type WorkerMessage = z.infer<typeof workerMessage>;
