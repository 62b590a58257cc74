/** What a service needs from its process. Created by `main.ts`, the only file that may use process globals. */
import type { Environment } from '../config/environment.ts';
import type { ClusterWorker } from './cluster-worker.ts';

export interface ServiceHost {
  readonly env: Environment;
  readonly write: (text: string) => void;
  /** Whether a person reads what `write` prints. If not, it may end up in a log. */
  readonly isTerminal: boolean;
  readonly writeError: (text: string) => void;
  /** Aborted when the process is asked to stop. */
  readonly stopping: AbortSignal;
  /** Sets the handler of SIGHUP. */
  readonly onReload: (reload: () => void) => void;
  /** Null for a single process, and for the parent of a cluster. */
  readonly clusterWorker: ClusterWorker | null;
}
