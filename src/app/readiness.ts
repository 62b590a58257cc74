/**
 * Whether this process can do its work, for `/readyz`. Ready means that calls are served, not that everything works: without the database, calls
 * of cached keys are served, and processes that were all not ready would take the service away. See docs/operating.md#readiness.
 */
import type { Admission } from '../ceilings/admission.ts';
import type { BodyMemory } from '../http/body-memory.ts';
import type { HealthDeps } from '../http/routes/health.ts';
import type { Journal } from '../journal/journal.ts';
import type { Keyring } from '../keys/keyring.ts';

export interface ReadinessDeps {
  readonly isWorker: boolean;
  readonly isStopping: () => boolean;
  /** Reasons of the surrounding process. */
  readonly startupBlockers: () => readonly string[];
  readonly journal: Pick<Journal, 'state'>;
  readonly keyring: Pick<Keyring, 'canFind'>;
  readonly admission: Pick<Admission, 'isRefusing'>;
  readonly bodyMemory: Pick<BodyMemory, 'isFull'>;
  readonly isDatabaseDown: () => boolean;
  /** Why durable work waits; empty when it does not. */
  readonly durableWaitReasons: () => readonly string[];
  /** Ids of dead processes whose leases withhold budget. */
  readonly listLeaseholders: () => readonly string[];
}

export function createReadiness(deps: ReadinessDeps): HealthDeps {
  const {
    isWorker,
    isStopping,
    startupBlockers,
    journal,
    keyring,
    admission,
    bodyMemory,
    isDatabaseDown,
    durableWaitReasons,
    listLeaseholders,
  } = deps;

  const journalReasons = (): string[] => {
    const { obstacle } = journal.state();
    return obstacle === null ? [] : [`the journal cannot be written: ${obstacle.summary} (${obstacle.detail})`];
  };

  /** Each activity of a worker needs the database and Temporal. */
  const workerReasons = (): string[] => [...(isDatabaseDown() ? ['the database is unavailable'] : []), ...durableWaitReasons()];

  /** States in which every call is a 503. */
  const callReasons = async (): Promise<string[]> => [
    ...((await keyring.canFind()) ? [] : ['virtual keys cannot be read: the database is unavailable and no key is cached']),
    ...(admission.isRefusing() ? ['ceilings cannot be checked: the database is unavailable and on_budget_store_down is refuse'] : []),
    ...(bodyMemory.isFull() ? ['too many large requests are being served'] : []),
  ];

  return {
    async getNotReadyReasons() {
      const blockers = startupBlockers();
      return [
        ...(isStopping() ? ['the process is stopping'] : []),
        ...blockers,
        ...journalReasons(),
        // Calls need neither durable work nor, while their key is in memory, the database, so only a worker is not ready without them.
        ...(isWorker ? workerReasons() : blockers.length > 0 ? [] : await callReasons()),
      ];
    },
    getDegradations: () => [
      ...(!isWorker && isDatabaseDown()
        ? ['the database is unavailable: calls of keys in memory are served and kept in the journal; everything else is refused']
        : []),
      ...(isWorker ? [] : durableWaitReasons().map((reason) => `durable work waits: ${reason}`)),
      ...listLeaseholders().map((id) => `leases of the dead process ${id} withhold budget: gateway leases release ${id}`),
    ],
  };
}
