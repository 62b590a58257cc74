/**
 * Tests every transition of a counter's quota. The lease store is a fake whose statements end when the test says so.
 */
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { type CounterQuota, createCounterQuota } from '../../src/ceilings/counter-quota.ts';
import type { LimitedCounter } from '../../src/ceilings/counters.ts';
import type { LeaseGrant, LeaseStore } from '../../src/ceilings/lease-store.ts';
import { createQuotaStateMachine, type QuotaState, quotaTransitions } from '../../src/ceilings/quota-state.ts';
import type { QuotaGrant } from '../../src/ceilings/wait-queue.ts';
import { noon } from '../journal/calls.ts';

type StatementName = 'acquire' | 'release' | 'reconcile' | 'remove' | 'requestReturn';

interface Statement {
  readonly name: StatementName;
  readonly resolve: (result?: unknown) => void;
  readonly reject: () => void;
}

const limit = 1_000;
const counter: LimitedCounter = {
  key: { projectId: 'p', scope: 'key', scopeId: 'k', ceiling: 'cost', window: 'month', start: noon, end: noon + 86_400_000 },
  name: 'cost of k',
  limit,
  readAt: 0,
};

function createTestQuota() {
  const statements: Statement[] = [];
  const path: QuotaState[] = ['idle'];
  const statement = (name: StatementName): Promise<never> =>
    new Promise((resolve, reject) => {
      statements.push({ name, resolve: (result) => resolve(result as never), reject: () => reject(new Error('down')) });
    });
  const unused = () => Promise.reject(new Error('not a statement of one counter'));
  const leases: LeaseStore = {
    acquire: () => statement('acquire'),
    release: () => statement('release'),
    reconcile: () => statement('reconcile'),
    remove: () => statement('remove'),
    requestReturn: () => statement('requestReturn'),
    publish: unused,
    returnRequests: unused,
    revokeAll: unused,
    list: unused,
  };
  let generation = 0;
  const quota = createCounterQuota({
    counter,
    process: 'this process',
    leases,
    health: {
      isDown: false,
      async watch(work, onDown) {
        return work.catch((error: unknown) => {
          onDown();
          throw error;
        });
      },
      stop: async () => undefined,
    },
    nextGeneration() {
      generation += 1;
      return generation;
    },
    returnWaitMs: () => 1,
    isRequested: () => false,
    onTransition(from, to) {
      expect(path.at(-1)).toBe(from);
      path.push(to);
    },
  });

  /** Returns the statement in progress, which has to be this one. */
  const inProgress = async (name: StatementName): Promise<Statement> => {
    while (statements.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const next = statements.shift();
    if (next?.name !== name) throw new Error(`${name} expected, not ${next?.name}`);
    return next;
  };
  const end = async (name: StatementName, result?: unknown): Promise<void> => (await inProgress(name)).resolve(result);
  const fail = async (name: StatementName): Promise<void> => (await inProgress(name)).reject();
  const grant = (granted: number, heldByOthers = 0): LeaseGrant => ({ counterId: 7, granted, heldByOthers });
  const reserve = async (bound: number): Promise<QuotaGrant> => {
    const result = await quota.reserve(bound, counter);
    if (result.kind !== 'granted') throw new Error(result.kind);
    return result;
  };
  return {
    quota,
    path,
    inProgress,
    end,
    fail,
    grant,
    reserve,
    /** Reserves `bound` from a lease of `leased`. */
    async lease(leased: number, bound: number): Promise<QuotaGrant> {
      const reserved = reserve(bound);
      await end('acquire', grant(leased));
      return reserved;
    },
  };
}

type TestQuota = ReturnType<typeof createTestQuota>;

/** Makes a lease look unused. */
function makeUnused(quota: CounterQuota): void {
  const now = performance.now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => now() + 11_000);
  quota.maintain(noon);
}

interface Scenario {
  readonly title: string;
  readonly path: readonly QuotaState[];
  readonly run: (test: TestQuota) => Promise<void>;
}

const scenarios: readonly Scenario[] = [
  {
    title: 'acquires a lease for a call without local quota',
    path: ['idle', 'acquiring', 'idle'],
    async run({ lease }) {
      await lease(10, 10);
    },
  },
  {
    title: 'prefetches quota that runs low',
    path: ['idle', 'acquiring', 'idle', 'prefetching', 'idle'],
    async run({ quota, lease, end, grant }) {
      await lease(10, 1);
      quota.reserve(6, counter);
      await end('acquire', grant(0));
    },
  },
  {
    title: 'returns prefetched quota that another process needs',
    path: ['idle', 'acquiring', 'idle', 'prefetching', 'idle', 'returning', 'idle'],
    async run({ quota, lease, inProgress, end, grant }) {
      await lease(10, 1);
      quota.reserve(9, counter);
      const acquire = await inProgress('acquire');
      quota.returnUnused();
      acquire.resolve(grant(2));
      await end('release');
    },
  },
  {
    title: 'returns available quota that another process needs',
    path: ['idle', 'acquiring', 'idle', 'returning', 'idle'],
    async run({ quota, lease, end }) {
      await lease(10, 1);
      quota.returnUnused();
      await end('release');
    },
  },
  {
    title: 'deletes an unused lease',
    path: ['idle', 'acquiring', 'idle', 'removing', 'idle'],
    async run({ quota, lease, end }) {
      expect(quota.settle(await lease(10, 1), 1)).toBe(1);
      quota.commit({ counter: 7, generation: 1, amount: 1 });
      makeUnused(quota);
      await end('remove');
    },
  },
  {
    title: 'reconciles a failed prefetch during maintenance',
    path: ['idle', 'acquiring', 'idle', 'prefetching', 'stalled', 'prefetching', 'idle', 'reconciling', 'idle'],
    async run({ quota, path, lease, end, fail }) {
      await lease(10, 1);
      quota.reserve(6, counter);
      await fail('acquire');
      while (path.at(-1) !== 'idle') await new Promise((resolve) => setTimeout(resolve, 1));
      quota.maintain(noon);
      await end('reconcile', true);
    },
  },
  {
    title: 'retries a failed deletion during the next maintenance',
    path: [
      ...(['idle', 'acquiring', 'idle', 'removing', 'stalled', 'removing', 'idle', 'reconciling', 'idle', 'removing', 'idle'] as const),
      ...(['acquiring', 'idle', 'prefetching', 'stalled', 'prefetching', 'idle', 'reconciling', 'stalled', 'reconciling', 'idle'] as const),
    ],
    async run({ quota, path, lease, end, fail }) {
      const idle = async (): Promise<void> => {
        while (path.at(-1) !== 'idle') await new Promise((resolve) => setTimeout(resolve, 1));
      };
      expect(quota.settle(await lease(10, 1), 1)).toBe(1);
      quota.commit({ counter: 7, generation: 1, amount: 1 });
      makeUnused(quota);
      await fail('remove');
      await idle();
      quota.maintain(noon);
      await end('reconcile', true);
      await idle();
      quota.maintain(noon);
      await end('remove');
      jest.restoreAllMocks();
      await idle();
      await lease(10, 1);
      quota.reserve(6, counter);
      await fail('acquire');
      await idle();
      quota.maintain(noon);
      await fail('reconcile');
    },
  },
  {
    title: 'lets a call wait until a doubtful lease is confirmed',
    path: ['idle', 'acquiring', 'idle', 'verifying', 'acquiring', 'idle'],
    async run({ quota, lease, reserve, end, grant }) {
      await lease(10, 10);
      quota.markUnverified();
      const reserved = reserve(5);
      await end('reconcile', true);
      await end('acquire', grant(5));
      await reserved;
    },
  },
  {
    title: "stops waiting if the lease can't be confirmed",
    path: ['idle', 'acquiring', 'idle', 'verifying', 'stalled', 'verifying', 'idle'],
    async run({ quota, lease, fail }) {
      await lease(10, 1);
      quota.markUnverified();
      const result = quota.reserve(5, counter);
      await fail('reconcile');
      expect(await result).toEqual({ kind: 'unavailable' });
    },
  },
  {
    title: 'acquires a doubtful lease again under a lower limit',
    path: ['idle', 'acquiring', 'idle', 'verifying', 'returning', 'acquiring', 'idle'],
    async run({ quota, lease, end, grant }) {
      await lease(10, 1);
      quota.markUnverified();
      const result = quota.reserve(5, { ...counter, limit: limit - 1, readAt: 1 });
      await end('reconcile', true);
      await end('release');
      await end('acquire', grant(5));
      expect(await result).toMatchObject({ kind: 'granted', reserved: 5 });
    },
  },
  {
    title: 'confirms a lease that became doubtful while quota was returned',
    path: ['idle', 'acquiring', 'idle', 'returning', 'verifying', 'acquiring', 'idle'],
    async run({ quota, lease, reserve, inProgress, end, grant }) {
      await lease(10, 1);
      quota.returnUnused();
      const release = await inProgress('release');
      quota.markUnverified();
      const reserved = reserve(5);
      release.resolve();
      await end('reconcile', true);
      await end('acquire', grant(5));
      await reserved;
    },
  },
  {
    title: 'also returns quota that becomes available in the meantime',
    path: ['idle', 'acquiring', 'idle', 'returning', 'returning', 'idle'],
    async run({ quota, lease, inProgress, end }) {
      const call = await lease(10, 1);
      quota.returnUnused();
      const release = await inProgress('release');
      quota.settle(call, 0);
      release.resolve();
      await end('release');
    },
  },
  {
    title: 'stalls after a failed return',
    path: ['idle', 'acquiring', 'idle', 'returning', 'stalled', 'returning', 'idle'],
    async run({ quota, lease, fail }) {
      await lease(10, 1);
      quota.returnUnused();
      await fail('release');
    },
  },
  {
    title: 'acquires a new lease for a call whose lease was revoked',
    path: ['idle', 'acquiring', 'idle', 'acquiring', 'acquiring', 'idle'],
    async run({ lease, reserve, end, grant }) {
      await lease(10, 10);
      const reserved = reserve(5);
      await end('acquire', null);
      await end('acquire', grant(5));
      expect(await reserved).toMatchObject({ reserved: 5, generation: 2 });
    },
  },
  {
    title: 'stalls after a failed acquisition',
    path: ['idle', 'acquiring', 'stalled', 'acquiring', 'idle'],
    async run({ quota, fail }) {
      const result = quota.reserve(5, counter);
      await fail('acquire');
      expect(await result).toEqual({ kind: 'unavailable' });
    },
  },
  {
    title: 'confirms a lease that became doubtful during an acquisition',
    path: ['idle', 'acquiring', 'verifying', 'acquiring', 'idle'],
    async run({ quota, reserve, inProgress, end, grant }) {
      const reserved = reserve(5);
      const acquire = await inProgress('acquire');
      quota.markUnverified();
      acquire.resolve(grant(5));
      await end('reconcile', true);
      // The first acquisition's grant suffices, so the second one ends without a statement.
      await reserved;
    },
  },
  {
    title: 'returns quota to another process and denies the call',
    path: ['idle', 'acquiring', 'idle', 'acquiring', 'returning', 'idle'],
    async run({ quota, lease, inProgress, end, grant }) {
      await lease(10, 7);
      const result = quota.reserve(5, counter);
      const acquire = await inProgress('acquire');
      quota.returnUnused();
      acquire.resolve(grant(0));
      await end('release');
      expect(await result).toEqual({ kind: 'denied' });
    },
  },
  {
    title: 'requests quota from other processes once',
    path: ['idle', 'acquiring', 'requesting', 'acquiring', 'idle'],
    async run({ quota, end, grant }) {
      const result = quota.reserve(5, counter);
      await end('acquire', grant(0, 3));
      await end('requestReturn');
      await end('acquire', grant(0, 3));
      expect(await result).toEqual({ kind: 'denied' });
    },
  },
  {
    title: 'stalls after a failed request',
    path: ['idle', 'acquiring', 'requesting', 'stalled', 'requesting', 'idle'],
    async run({ quota, end, fail, grant }) {
      const result = quota.reserve(5, counter);
      await end('acquire', grant(0, 3));
      await fail('requestReturn');
      expect(await result).toEqual({ kind: 'unavailable' });
    },
  },
  {
    title: 'confirms a lease that became doubtful during a request',
    path: ['idle', 'acquiring', 'requesting', 'verifying', 'acquiring', 'idle'],
    async run({ quota, reserve, inProgress, end, grant }) {
      const reserved = reserve(5);
      await end('acquire', grant(0, 3));
      const request = await inProgress('requestReturn');
      quota.markUnverified();
      request.resolve();
      await end('reconcile', true);
      await end('acquire', grant(5, 3));
      await reserved;
    },
  },
  {
    title: 'serves the call with quota that becomes available locally',
    path: ['idle', 'acquiring', 'idle', 'acquiring', 'requesting', 'returning', 'idle'],
    async run({ quota, lease, reserve, inProgress, end, grant }) {
      const call = await lease(10, 10);
      const reserved = reserve(5);
      await end('acquire', grant(0, 3));
      const request = await inProgress('requestReturn');
      quota.settle(call, 0);
      await reserved;
      request.resolve();
      await end('release');
    },
  },
];

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the quota of a counter', () => {
  test.each(scenarios)('$title', async ({ path, run }) => {
    const quota = createTestQuota();
    await run(quota);
    while (quota.path.length < path.length) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(quota.path).toEqual(path);
  });

  test('tests every transition of the quota state machine', () => {
    const walked = scenarios.flatMap(({ path }) => path.slice(1).map((to, index) => `${path[index]} > ${to}`));
    const allowed = Object.entries(quotaTransitions).flatMap(([from, states]) => states.map((to) => `${from} > ${to}`));
    expect([...new Set(walked)].toSorted()).toEqual(allowed.toSorted());
  });
});

test('throws on an undefined transition of the quota state machine', () => {
  const unexpected = async (): Promise<'idle'> => 'idle';
  const tasks = {
    verifying: unexpected,
    returning: unexpected,
    acquiring: unexpected,
    requesting: unexpected,
    prefetching: unexpected,
    reconciling: unexpected,
    removing: unexpected,
  };
  const machine = createQuotaStateMachine({ tasks, onFailure: () => undefined, onIdle: () => undefined });
  expect(() => machine.stall()).toThrow('from idle to stalled');
});
