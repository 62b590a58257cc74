/**
 * Everything that a service needs from its process. `main.ts` creates this, because no other file may use the globals
 * of the process.
 */
import type { Environment } from '../config/environment.ts';
import type { ClusterWorker } from './cluster-worker.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  /** True if a person reads what we `write`. If it's false, the output might end up in a log. */
  readonly isTerminal: boolean;
  readonly writeError: (text: string) => void;
  /** Aborted when the process is asked to stop. */
  readonly stopping: AbortSignal;
  /** Sets the function that is called on SIGHUP. */
  readonly onReload: (reload: () => void) => void;
  /** Null unless this is one of a cluster's API processes. */
  readonly clusterWorker: ClusterWorker | null;
}
