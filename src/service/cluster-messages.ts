/** Messages between the parent of a cluster (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** What a process needs to load its configuration, apart from the environment, which it inherits. */
const snapshot = z.object({
  /** gateway.yaml as last read by the parent. Null if there is no file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  /** The secret files as last read by the parent. */
  secrets: z.object({ values: z.record(z.string(), z.string()).readonly(), errors: z.array(z.string()).readonly() }),
  /** The URL of the cluster's demo vendor, or null if there is none. */
  demoUrl: z.string().nullable(),
  /** Null if the cluster runs no embedder. */
  localEmbedder: z.object({ url: z.string(), token: z.string() }).nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** Messages from the parent to an API process. The first one is always `begin`. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** The process's slot in the cluster, starting at 1. If a process dies, its replacement gets the same slot. */
    place: z.number(),
    /** Only the first process of a new cluster prints how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
  /** Sent whenever the cluster's embedder becomes ready or unavailable. */
  z.object({ kind: z.literal('embedder'), isReady: z.boolean() }),
  /** Asks the process for its own metrics. */
  z.object({ kind: z.literal('collect metrics'), id: z.number() }),
  /** Answers `read metrics`. */
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
  /** The process is serving calls at this URL. */
  z.object({ kind: z.literal('up'), url: z.string() }),
  /** Answers `collect metrics`. */
  z.object({ kind: z.literal('collected'), id: z.number(), families: z.array(metricFamily).readonly() }),
  /** Asks the parent for the metrics of all processes, because this process has received the scrape. */
  z.object({ kind: z.literal('read metrics'), id: z.number() }),
]);
export type WorkerMessage = z.infer<typeof workerMessage>;
