/** Messages between the parent of a cluster (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** Everything that determines a process's configuration, except for the environment, which it inherits. */
const snapshot = z.object({
  /** The text of gateway.yaml as the parent last read it. Null if there is no file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** The secrets that the parent last read from files. */
  secrets: z.object({ values: z.record(z.string(), z.string()).readonly(), errors: z.array(z.string()).readonly() }),
  /** The URL of the cluster's demo vendor, or null if there is none. */
  demoUrl: z.string().nullable(),
  /** The cluster's embedder, or null if there is none. */
  localEmbedder: z.object({ url: z.string(), token: z.string() }).nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** Sent by the parent. The first message is always `begin`. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** The slot in the cluster, starting at 1. A replacement takes over the slot of the dead process. */
    place: z.number(),
    /** True for the first process when the cluster starts. It prints how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
  /** Tells whether the cluster's embedder responds. Sent on each change. */
  z.object({ kind: z.literal('embedder'), isReady: z.boolean() }),
  /** Asks for the metrics of this process. */
  z.object({ kind: z.literal('collect metrics'), id: z.number() }),
  /** Answers the worker's `read metrics`. */
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
  /** The process now serves calls. */
  z.object({ kind: z.literal('up'), url: z.string() }),
  /** Answers `collect metrics`. */
  z.object({ kind: z.literal('collected'), id: z.number(), families: z.array(metricFamily).readonly() }),
  /** Asks for the metrics of all processes, because somebody requested them from this process. */
  z.object({ kind: z.literal('read metrics'), id: z.number() }),
]);
export type WorkerMessage = z.infer<typeof workerMessage>;
