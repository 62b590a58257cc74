/**
 * Helpers for the ceiling tests. They start processes that admit, settle and store calls on a real database, and
 * compute the sums that have to be equal.
 */
import { randomUUID } from 'node:crypto';
import { type Admission, createAdmission } from '../../src/ceilings/admission.ts';
import { applyCalls } from '../../src/ceilings/counter-updates.ts';
import type { Limits, ProjectLimits } from '../../src/ceilings/counters.ts';
import type { Reservation } from '../../src/ceilings/reservation.ts';
import type { SettledCall } from '../../src/core/call.ts';
import { newId } from '../../src/core/ids.ts';
import { noTokens } from '../../src/core/pricing.ts';
import type { Clock } from '../../src/core/time.ts';
import type { CeilingName, WindowKind } from '../../src/core/windows.ts';
import type { Database } from '../../src/db/database.ts';
import { storeCalls } from '../../src/usage/store-calls.ts';
import { keepingLogger, settledCall } from '../journal/calls.ts';

/** The limits of a key. Omitted ceilings have no limit. */
export function limitsOf(
  changes: Partial<Record<CeilingName, number>> = {},
  { window = 'month', ...rest }: Partial<Omit<Limits, 'key' | 'project'>> & { window?: WindowKind; project?: Partial<ProjectLimits> } = {},
): Limits {
  const { project, ...names } = rest;
  return {
    projectId: names.projectId ?? randomUUID(),
    keyId: names.keyId ?? randomUUID(),
    source: names.source ?? 'acme',
    key: {
      calls: { limit: changes.calls ?? null, window },
      cost: { limit: changes.cost ?? null, window },
      rpm: { limit: changes.rpm ?? null, window: 'minute' },
      tpm: { limit: changes.tpm ?? null, window: 'minute' },
    },
    project: { readAt: performance.now(), mayCall: true, monthlyCapNanos: null, applications: new Map(), ...project },
  };
}

export interface Bounds {
  readonly costNanos?: number;
  readonly tokens?: number;
}

/** An admitted call. */
export interface RunningCall {
  readonly reservation: Reservation;
  readonly limits: Limits;
  readonly startedAt: number;
}

export interface TestProcess {
  readonly id: string;
  readonly admission: Admission;
  /** Null if the call is denied. */
  admit(limits: Limits, bounds?: Bounds, startedAt?: number): Promise<RunningCall | null>;
  /** Settles a call, which `store` stores later. */
  settle(call: RunningCall, spent?: Bounds): void;
  /** Stores the settled calls like the journal drain does. */
  store(): Promise<void>;
  /** The calls that are not stored yet. If the process dies, they are its journal. */
  journal(): SettledCall[];
}

export function createTestProcess({
  database,
  clock,
  onStoreDown = 'allow',
  onQuotaRequested = () => undefined,
}: {
  database: Database;
  clock: Clock;
  onStoreDown?: 'allow' | 'refuse';
  onQuotaRequested?: () => void;
}): TestProcess {
  const id = randomUUID();
  const admission = createAdmission({
    database,
    clock,
    logger: keepingLogger(),
    process: id,
    onStoreDown: () => onStoreDown,
    onQuotaRequested,
  });
  let settled: SettledCall[] = [];
  return {
    id,
    admission,
    async admit(limits, { costNanos = 0, tokens = 0 } = {}, startedAt = clock.now()) {
      try {
        const reservation = await admission.admit({
          limits,
          startedAt,
          bounds: () => ({ costNanos, tokens }),
        });
        return { reservation, limits, startedAt };
      } catch (error) {
        if (error instanceof Error && 'status' in error && error.status === 429) return null;
        throw error;
      }
    },
    settle({ reservation, limits, startedAt }, { costNanos = 0, tokens = 0 } = {}) {
      const call = settledCallOf(limits, startedAt, { costNanos, tokens });
      settled.push({ ...call, result: reservation.settle(call.result) });
    },
    async store() {
      const batch = settled;
      settled = [];
      await storeAndCount(database, batch);
      admission.commit(batch);
    },
    journal: () => settled,
  };
}

function settledCallOf(limits: Limits, startedAt: number, { costNanos, tokens }: Required<Bounds>): SettledCall {
  const { projectId, keyId, source } = limits;
  return settledCall({
    metadata: { id: newId(startedAt), startedAt, projectId, keyId, source },
    result: { costNanos, tokens: { ...noTokens, output: tokens } },
  });
}

export async function storeAndCount(database: Database, calls: readonly SettledCall[]): Promise<void> {
  await database.transaction(async (tx) => {
    await applyCalls(tx, await storeCalls(tx, calls));
  });
}

export interface CounterRow {
  readonly ceiling: CeilingName;
  readonly settled: number;
  readonly leased: number;
  /** The sum of the leases' amounts. */
  readonly leases: number;
  /** The sum over the window's call rows. */
  readonly rows: number;
}

/** Returns the counters of a project with the sums that they have to equal. */
export function countersIn(database: Database, projectId: string): Promise<CounterRow[]> {
  return database.query<CounterRow>(
    `select c.ceiling, c.settled, c.leased,
            (select coalesce(sum(amount), 0)::bigint from limit_leases l where l.counter_id = c.id) as leases,
            (select coalesce(sum(case c.ceiling when 'cost' then coalesce(cost_nanos, 0)
                                                when 'tpm' then case when vendor_called then tokens_output else 0 end
                                                else vendor_called::integer end), 0)::bigint
               from calls k
              where k.project_id = c.project_id and k.started_at >= c.window_start and (c.window_end is null or k.started_at < c.window_end)
                and case c.holder when 'key' then k.key_id::text = c.holder_id when 'source' then k.source = c.holder_id else true end) as rows
       from limit_counters c where c.project_id = $1::uuid order by c.id`,
    [projectId],
  );
}
