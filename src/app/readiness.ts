/**
 * Decides for `/readyz` whether this process can do its work. A process that is ready can serve calls, but not
 * everything has to work. Without the database it can still serve calls whose keys are cached. If all processes then
 * said that they aren't ready, the whole service would be down. See docs/operating.md#readiness.
 */
import type { Admission } from '../ceilings/admission.ts';
import type { BodyMemory } from '../http/body-memory.ts';
import type { HealthDeps } from '../http/routes/health.ts';
import type { Journal } from '../journal/journal.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Identities } from '../vendors/identity/identities.ts';

export interface ReadinessDeps {
  readonly isWorker: boolean;
  readonly isStopping: () => boolean;
  /**
   * Returns reasons from outside this module why the process isn't ready yet, e.g. that it hasn't reached the database.
   */
  readonly startupBlockers: () => readonly string[];
  readonly journal: Pick<Journal, 'state'>;
  readonly keyring: Pick<Keyring, 'canFind'>;
  readonly admission: Pick<Admission, 'isRefusing'>;
  readonly bodyMemory: Pick<BodyMemory, 'isFull'>;
  readonly isDatabaseDown: () => boolean;
  /** Returns why durable work is waiting, or an empty list if it isn't. */
  readonly durableWaitReasons: () => readonly string[];
  /** Returns the ids of dead processes whose leases still hold part of a ceiling. */
  readonly listLeaseholders: () => readonly string[];
  readonly identityStates: Identities['states'];
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
    identityStates,
  } = deps;

  const journalReasons = (): string[] => {
    const { obstacle } = journal.state();
    return obstacle === null ? [] : [`the journal cannot be written: ${obstacle.summary} (${obstacle.detail})`];
  };

  /** A worker can't do anything without the database and Temporal. */
  const workerReasons = (): string[] => [...(isDatabaseDown() ? ['the database is unavailable'] : []), ...durableWaitReasons()];

  /** Returns the reasons why every call would currently get a 503. */
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
        // API processes skip the worker's reasons. Calls don't need durable work, and with a cached key they don't even
        // need the database.
        ...(isWorker ? workerReasons() : blockers.length > 0 ? [] : await callReasons()),
      ];
    },
    getDegradations: () => [
      ...(!isWorker && isDatabaseDown()
        ? ['the database is unavailable: only calls with cached keys are served, and their records stay in the journal']
        : []),
      ...(isWorker ? [] : durableWaitReasons().map((reason) => `durable work is paused: ${reason}`)),
      ...identityStates().flatMap(({ provider, type, isValid, problem }) => {
        if (isValid && problem === null) return [];
        const effect = isValid ? 'cannot be refreshed, the current credential is still valid' : 'has no valid credential; calls fail over';
        return [`the ${type} identity of the provider ${provider} ${effect}${problem === null ? '' : `: ${problem}`}`];
      }),
      ...listLeaseholders().map(
        (id) => `leases of the dead process ${id} still hold part of a ceiling; release them with: gateway leases release ${id}`,
      ),
    ],
  };
}
