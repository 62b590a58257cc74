/** Ways to break the journal, each of which the simulation must find. */
import type { Mutant } from './mutants.ts';

export const journalMutants: readonly Mutant[] = [
  {
    name: 'a segment is deleted before it is drained',
    file: 'src/journal/drain.ts',
    passage: 'if (!isDrained(segment)) return;',
    replacement: '',
    seeds: 12,
  },
  {
    name: 'calls that could not be written are not parked',
    file: 'src/journal/journal.ts',
    passage: 'parked.add(call);',
    replacement: '',
    seeds: 1,
  },
  {
    name: 'open calls are not copied to the next segment',
    file: 'src/journal/journal.ts',
    passage: 'await Promise.all(toCopy.map((call) => appendUsingBallast(encodeOpened(call))));',
    replacement: '',
    seeds: 1,
  },
  {
    name: 'recovery drops interrupted calls',
    file: 'src/journal/recover.ts',
    passage: 'await batches.storeAll(unknown);',
    replacement: '',
    seeds: 1,
  },
  {
    name: 'the drain goes on after a failed batch',
    file: 'src/journal/drain.ts',
    passage: 'await batches.storeSettled(calls);',
    replacement: 'await batches.storeSettled(calls).catch(() => undefined);',
    seeds: 2,
  },
];
