/** The process as a service sees it; made by `main.ts`, which owns the process. */
import type { Environment } from '../config/environment.ts';
import type { ClusterWorker } from './cluster-worker.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  readonly writeError: (text: string) => void;
  /** Aborted when the process is told to stop. */
  readonly stopping: AbortSignal;
  /** Sets what a SIGHUP does. */
  readonly onReload: (reload: () => void) => void;
  /** Of a process that belongs to a set; null for one that is a service by itself, or the parent of a set. */
  readonly clusterWorker: ClusterWorker | null;
}
