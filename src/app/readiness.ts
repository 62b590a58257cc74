/**
 * Decides how `/readyz` responds. A process is ready as long as it can do its work, even if some of its parts are
 * failing. For example, API processes keep serving calls with cached keys if the database is down. If they reported
 * that they aren't ready, all of them would do so at the same time, and the whole service would be down. See
 * docs/operating.md#readiness.
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
   * Returns reasons for not being ready that this module can't check itself, e.g. that we haven't reached the database
   * yet.
   */
  readonly startupBlockers: () => readonly string[];
  readonly journal: Pick<Journal, 'state'>;
  readonly keyring: Pick<Keyring, 'canFind'>;
  readonly admission: Pick<Admission, 'isRefusing'>;
  readonly bodyMemory: Pick<BodyMemory, 'isFull'>;
  readonly isDatabaseDown: () => boolean;
  readonly durableWaitReasons: () => readonly string[];
  readonly listLeaseholders: () => readonly string[];
  readonly identityStates: Identities['states'];
}

export function createReadiness(deps: ReadinessDeps): HealthDeps {
  const journalReasons = (): string[] => {
    const { obstacle } = deps.journal.state();
    return obstacle === null ? [] : [`the journal cannot be written: ${obstacle.summary} (${obstacle.detail})`];
  };

  /** A worker isn't ready without both the database and Temporal. */
  const workerReasons = (): string[] => [...(deps.isDatabaseDown() ? ['the database is unavailable'] : []), ...deps.durableWaitReasons()];

  /** Returns the reasons why every call would currently get a 503. Empty if calls can succeed. */
  const callReasons = async (): Promise<string[]> => [
    ...((await deps.keyring.canFind()) ? [] : ['virtual keys cannot be read: the database is unavailable and no key is cached']),
    ...(deps.admission.isRefusing()
      ? ['ceilings cannot be checked: the database is unavailable and on_budget_store_down is set to refuse']
      : []),
    ...(deps.bodyMemory.isFull() ? ['too many large requests are being served'] : []),
  ];

  return {
    async getNotReadyReasons() {
      const blockers = deps.startupBlockers();
      return [
        ...(deps.isStopping() ? ['the process is stopping'] : []),
        ...blockers,
        ...journalReasons(),
        // If durable work or the database is down, only workers aren't ready. API processes don't need durable work for
        // calls, and with cached keys they don't need the database either.
        ...(deps.isWorker ? workerReasons() : blockers.length > 0 ? [] : await callReasons()),
      ];
    },
    getDegradations: () => [
      ...(!deps.isWorker && deps.isDatabaseDown()
        ? ['the database is unavailable: only calls with cached keys are served, and their records stay in the journal']
        : []),
      ...(deps.isWorker ? [] : deps.durableWaitReasons().map((reason) => `durable work is paused: ${reason}`)),
      ...deps.identityStates().flatMap(({ provider, type, isValid, problem }) => {
        if (isValid && problem === null) return [];
        const effect = isValid
          ? 'cannot be refreshed, but its current credential is still valid'
          : 'has no valid credential, so its calls fail over';
        return [`the ${type} identity of the provider ${provider} ${effect}${problem === null ? '' : `: ${problem}`}`];
      }),
      ...deps
        .listLeaseholders()
        .map(
          (id) =>
            `the dead process ${id} still holds leases, which count against ceilings; release them with: gateway leases release ${id}`,
        ),
    ],
  };
}
