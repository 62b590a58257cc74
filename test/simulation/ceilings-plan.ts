/**
 * Uses the seed to choose what happens in a simulated run of the ceilings, i.e. ceilings, load, faults and incidents.
 */
import type { Limits } from '../../src/ceilings/counters.ts';
import type { Ceiling, CeilingName } from '../../src/core/windows.ts';
import type { Random } from '../support/random.ts';
import type { NetworkFaults } from './world.ts';

export interface Incident {
  readonly atMs: number;
  readonly kind: 'kill' | 'cut off' | 'change';
}

export type CeilingsPlan = ReturnType<typeof createPlan>;

const kinds: readonly Incident['kind'][] = ['kill', 'cut off', 'cut off', 'change'];

export function createPlan(random: Random) {
  const processes = random.pick([1, 2, 2, 3, 3, 4, 8]);
  const durationMs = random.between(1_000, 5_000);
  const faults: NetworkFaults = random.pick([
    { loss: 0, delay: 0 },
    { loss: 0, delay: 0.05 },
    { loss: 0.02, delay: 0.02 },
    { loss: 0.1, delay: 0.1 },
  ]);
  const incidents = random.chance(0.4)
    ? []
    : Array.from(
        { length: random.between(1, 4) },
        (): Incident => ({
          atMs: random.between(100, Math.floor(durationMs / 2)),
          kind: kinds[random.below(kinds.length)] ?? 'kill',
        }),
      );
  /** If every call uses at most its bound, a run shows the ceilings exactly. */
  let excessiveCalls = random.pick([0, 0, 1, 1_000]);
  const isFaultless = faults.loss === 0 && faults.delay === 0 && incidents.length === 0;
  const limits = createLimits(random, incidents.some(({ kind }) => kind === 'change') ? random : null);
  return {
    processes,
    durationMs,
    faults,
    incidents,
    limits,
    /** No notification arrives, like behind a transaction pooler. */
    losesNotifications: random.chance(0.3),
    /** The longest pause between two calls of a process. */
    pauseMs: processes * random.pick([20, 60, 200]),
    maxBound: random.pick([10, 200, 700]),
    longCalls: isFaultless ? 0 : 0.1,
    longestCallMs: random.pick([4_000, 4_000, 4_000, 4_000, 4_000, 10_000, 10_000, 70_000]),
    isFaultless,
    /** The share of batches that the database rejects. */
    rejection: random.pick([0, 0, 0.05]),
    writeOff: 0.7,
    takeOver: 0.5,
    onStoreDown: random.pick(['refuse', 'refuse', 'allow'] as const),
    /** The largest difference between a host's clock and the true time. */
    skewMs: random.pick([0, 0, 3_000, 90_000]),
    /** A minute may end during the run. */
    startMs: random.below(60_000),
    takeExcess(): boolean {
      if (excessiveCalls === 0 || !random.chance(0.3)) return false;
      excessiveCalls -= 1;
      return true;
    },
  };
}

/** Returns the ceilings of each version: the same ones, with other limits if they change. */
function createLimits(random: Random, changes: Random | null): (version: number) => Limits {
  const chosen = (['calls', 'cost', 'rpm', 'tpm'] as const).filter(() => random.chance(0.4));
  const names = new Set<CeilingName>(chosen.length > 0 ? chosen : [random.pick(['calls', 'cost', 'rpm', 'tpm'])]);
  const hasApplication = random.chance(0.2);
  const hasCap = random.chance(0.2);
  const limitOf = (ceiling: CeilingName): number =>
    ceiling === 'calls' || ceiling === 'rpm' ? random.pick([random.between(1, 12), random.between(20, 400)]) : random.between(50, 20_000);
  const base = { calls: limitOf('calls'), cost: limitOf('cost'), rpm: limitOf('rpm'), tpm: limitOf('tpm'), cap: limitOf('cost') };
  const versions: Limits[] = [];
  const factors = [1, 0.5, 2, 0.1, 1.3];
  return (version) => {
    const factor = changes ? (factors[version % factors.length] ?? 1) : 1;
    const limit = (amount: number): number => Math.ceil(amount * factor);
    const ceiling = (name: CeilingName, window: Ceiling['window']): Ceiling => ({
      limit: names.has(name) ? limit(base[name]) : null,
      window,
    });
    versions[version] ??= {
      projectId: 'project',
      keyId: 'key',
      source: 'source',
      key: { calls: ceiling('calls', 'month'), cost: ceiling('cost', 'day'), rpm: ceiling('rpm', 'minute'), tpm: ceiling('tpm', 'minute') },
      project: {
        readAt: version,
        mayCall: true,
        monthlyCapNanos: hasCap ? limit(base.cap) : null,
        applications: hasApplication
          ? new Map([
              ['source', { ceilings: { calls: { limit: limit(base.calls), window: 'total' }, cost: { limit: null, window: 'month' } } }],
            ])
          : new Map(),
      },
    };
    return versions[version];
  };
}
