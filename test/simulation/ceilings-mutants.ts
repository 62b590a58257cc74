/** Ways to break the ceilings protocol, each of which the simulation must find. */
import type { Mutant } from './mutants.ts';

const quota = 'src/ceilings/counter-quota.ts';
const lease = 'src/ceilings/lease.ts';
const local = 'src/ceilings/local-quota.ts';
const store = 'test/simulation/ceilings-store.ts';

export const ceilingsMutants: readonly Mutant[] = [
  { name: 'lost reconcile', file: quota, passage: 'mustReconcile = true; //', replacement: '//', seeds: 10 },
  {
    name: 'reconcile forgets stored calls that were not confirmed',
    file: store,
    passage: 'held - found.lease.debited + debited',
    replacement: 'held',
    seeds: 1497,
  },
  { name: 'double return', file: local, passage: 'leased -= amount;\n      return amount;', replacement: 'return amount;', seeds: 4 },
  {
    name: 'settling without a check of the generation',
    file: quota,
    passage: 'if (generation !== lease.generation) return null;',
    replacement: '',
    seeds: 38,
  },
  {
    name: 'the store debits a lease of another generation',
    file: store,
    passage: 'return counter && lease?.generation === generation ?',
    replacement: 'return counter && lease ?',
    seeds: 1,
  },
  {
    name: 'a revoked lease is not noticed',
    file: lease,
    passage: 'isLeaseExpected = quota.leased > 0',
    replacement: 'isLeaseExpected = false',
    seeds: 180,
  },
  { name: 'settled usage is free again before it is stored', file: local, passage: 'pending += amount;', replacement: '', seeds: 2 },
  { name: 'stored usage stays in the lease', file: local, passage: 'leased -= debit.amount;', replacement: '', seeds: 2 },
  {
    name: 'quota of a higher ceiling is granted under a lower one',
    file: quota,
    passage: 'if (next < limit) markTooLarge();',
    replacement: '',
    seeds: 212,
  },
  {
    name: 'the first lease is forgotten when its response is lost',
    file: quota,
    passage: ' &&\n        !mustReconcile',
    replacement: '',
    seeds: 533,
  },
  {
    name: 'a denial is never forgotten',
    file: 'src/ceilings/wait-queue.ts',
    passage: 'performance.now() + denialMs',
    replacement: 'Number.MAX_VALUE',
    seeds: 27,
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
    seeds: 1,
  },
  {
    name: 'requests for quota are not polled while notifications do not arrive',
    file: 'src/ceilings/admission.ts',
    passage: '    polling.wake();\n',
    replacement: '',
    seeds: 2,
  },
];
