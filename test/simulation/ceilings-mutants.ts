/** Ways to break the ceilings protocol. The simulation has to find each of them. */
import type { Mutant } from './mutants.ts';

const quota = 'src/ceilings/counter-quota.ts';
const lease = 'src/ceilings/lease.ts';
const local = 'src/ceilings/local-quota.ts';
const store = 'test/simulation/ceilings-store.ts';

export const ceilingsMutants: readonly Mutant[] = [
  { name: 'lost reconcile', file: quota, passage: 'mustReconcile = true; //', replacement: '//', seeds: 12 },
  {
    name: 'reconcile forgets stored calls that were not confirmed',
    file: store,
    passage: 'held - found.lease.debited + debited',
    replacement: 'held',
    seeds: 268,
  },
  {
    name: 'calls that are larger than what remains run side by side',
    file: quota,
    passage: 'grant.heldByOthers === 0 && reserved === 0 && available > 0',
    replacement: 'grant.heldByOthers === 0 && available > 0',
    seeds: 338,
  },
  { name: 'double return', file: local, passage: 'this.#leased -= amount;\n    return amount;', replacement: 'return amount;', seeds: 2 },
  {
    name: 'settling without a check of the generation',
    file: quota,
    passage: 'generation !== lease.generation || lease.counterId === null',
    replacement: 'lease.counterId === null',
    seeds: 5,
  },
  {
    name: 'a stored call of another generation is deducted',
    file: quota,
    passage: 'commit({ generation, amount, owed = 0 }: ConsumedAmount): void {\n      if (generation !== lease.generation) return;',
    replacement: 'commit({ amount, owed = 0 }: ConsumedAmount): void {',
    seeds: 684,
  },
  {
    name: 'a process that reconnects does not verify its leases',
    file: quota,
    passage: 'markUnverified(): void {\n      mustVerify = true;',
    replacement: 'markUnverified(): void {',
    seeds: 840,
  },
  {
    name: 'the store debits a lease of another generation',
    file: store,
    passage: 'return counter && lease?.generation === generation ?',
    replacement: 'return counter && lease ?',
    seeds: 42,
  },
  {
    name: 'a revoked lease is not noticed',
    file: lease,
    passage: 'isLeaseExpected = lease.quota.leased > 0',
    replacement: 'isLeaseExpected = false',
    seeds: 191,
  },
  { name: 'settled usage is free again before it is stored', file: local, passage: 'this.#pending += amount;', replacement: '', seeds: 1 },
  {
    name: 'stored usage stays in the lease',
    file: local,
    passage: 'this.#leased -= amount;\n    this.#debited',
    replacement: 'this.#debited',
    seeds: 2,
  },
  {
    name: 'quota of a higher ceiling is granted under a lower one',
    file: quota,
    passage: 'if (next < limit) markTooLarge();',
    replacement: '',
    seeds: 159,
  },
  {
    name: 'the first lease is forgotten when its response is lost',
    file: quota,
    passage: ' &&\n      !mustReconcile',
    replacement: '',
    seeds: 156,
  },
  {
    name: 'a denial is never forgotten',
    file: 'src/ceilings/wait-queue.ts',
    passage: 'performance.now() + denialMs',
    replacement: 'Number.MAX_VALUE',
    seeds: 31,
  },
  {
    name: 'unused quota is not returned on request',
    file: quota,
    passage: 'policy.contend();\n      onQuotaChanged();',
    replacement: '',
    seeds: 2,
  },
  {
    name: 'a call is counted twice',
    file: store,
    passage: 'filter(({ metadata }) => !calls.has(metadata.id))',
    replacement: 'filter(() => true)',
    seeds: 10,
  },
  {
    name: 'requests for quota are not polled while notifications do not arrive',
    file: 'src/ceilings/admission.ts',
    passage: '    polling.wake();\n',
    replacement: '',
    seeds: 2,
  },
  {
    name: 'quota of a minute is dropped when it ends by the clock of its process',
    file: quota,
    passage: 'keptMs = 5_000',
    replacement: 'keptMs = 0',
    seeds: 957,
  },
  {
    name: 'quota is leased ahead while another process needs it',
    file: store,
    passage: 'isRequestedByOthers(counter, process) ? 0 : request.defaultGrant',
    replacement: 'request.defaultGrant',
    seeds: 2_908,
  },
];
