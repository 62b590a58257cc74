/**
 * A service's interface to its process. `main.ts` creates it, because that's the only file that can use process
 * globals.
 */
import type { Environment } from '../config/environment.ts';
import type { ClusterWorker } from './cluster-worker.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  /** True if `write` prints for a person. Otherwise the output could end up in a log. */
  readonly isTerminal: boolean;
  readonly writeError: (text: string) => void;
  /** Aborts when the process is asked to stop. */
  readonly stopping: AbortSignal;
  /** Sets the function that is called on SIGHUP. */
  readonly onReload: (reload: () => void) => void;
  /** Set in a cluster's API processes. Null in its parent, and if there's just one process. */
  readonly clusterWorker: ClusterWorker | null;
}
