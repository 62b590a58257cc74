/**
 * Everything that a service needs from its process. `main.ts` creates this, because no other file may use process
 * globals.
 */
import type { Environment } from '../config/environment.ts';
import type { ClusterWorker } from './cluster-worker.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  /** True if `write` writes to a terminal that a person reads. Otherwise, the output may end up in a log. */
  readonly isTerminal: boolean;
  readonly writeError: (text: string) => void;
  readonly stopping: AbortSignal;
  readonly onReload: (reload: () => void) => void;
  /** Null unless this is an API process of a cluster. */
  readonly clusterWorker: ClusterWorker | null;
}
