/** Messages between the parent of a cluster (cluster.ts) and its API processes (cluster-worker.ts). */
import { z } from 'zod';

/** What an API process needs to load its configuration. It inherits the environment. */
const snapshot = z.object({
  /** The content of gateway.yaml when the parent last read it. Null if there's no file. */
  fileText: z.string().nullable(),
  fileName: z.string(),
  secrets: z.object({ values: z.record(z.string(), z.string()).readonly(), errors: z.array(z.string()).readonly() }),
  /** The URL of the cluster's demo vendor. Null if there's none. */
  demoUrl: z.string().nullable(),
  /** Null if the cluster runs no local embedder. */
  localEmbedder: z.object({ url: z.string(), token: z.string() }).nullable(),
});
export type ConfigFileSnapshot = z.infer<typeof snapshot>;

/** Messages from the parent to an API process. The first one is always `begin`. */
export const parentMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('begin'),
    /** The slot of the process in the cluster, starting at 1. The replacement of a dead process gets the same slot. */
    place: z.number(),
    /** True for the first process of a new cluster, which prints how to call the service. */
    isFirst: z.boolean(),
    basis: snapshot,
  }),
  z.object({ kind: z.literal('reload'), basis: snapshot }),
  z.object({ kind: z.literal('embedder'), isReady: z.boolean() }),
  z.object({ kind: z.literal('collect metrics'), id: z.number() }),
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
  z.object({ kind: z.literal('up'), url: z.string() }),
  z.object({ kind: z.literal('collected'), id: z.number(), families: z.array(metricFamily).readonly() }),
  /** Asks the parent for the metrics of all processes, because this process has received the scrape. */
  z.object({ kind: z.literal('read metrics'), id: z.number() }),
]);
export type WorkerMessage = z.infer<typeof workerMessage>;
