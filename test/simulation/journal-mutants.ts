/** Ways to break the journal. The simulation has to find each of them. */
import type { Mutant } from './mutants.ts';

const writer = 'src/journal/segment-writer.ts';
const batches = 'src/journal/batch-store.ts';

export const journalMutants: readonly Mutant[] = [
  {
    name: 'a segment is deleted before it is drained',
    file: 'src/journal/drain.ts',
    passage: 'if (!isDrained(segment)) return;',
    replacement: '',
    seeds: 1,
  },
  {
    name: 'a segment is deleted before the calls of a locked project are stored',
    file: 'src/journal/drain.ts',
    passage: '!isBefore(setAside.oldestPosition(), {',
    replacement: '!isBefore(position, {',
    seeds: 4,
  },
  {
    name: 'a project is no longer set aside although not all of its calls are stored',
    file: 'src/journal/set-aside.ts',
    passage: 'if (isBehind(reader) || !canReturn(reader)) continue;',
    replacement: '',
    seeds: 4,
  },
  {
    name: 'calls that could not be written are not parked',
    file: 'src/journal/journal.ts',
    passage: 'parked.add(call);',
    replacement: '',
    seeds: 8,
  },
  {
    name: 'a call that was lost stays in flight',
    file: 'src/journal/journal.ts',
    passage: 'inFlight.remove(call.metadata.id);',
    replacement: '',
    seeds: 21,
  },
  {
    name: 'open calls are not copied to the next segment',
    file: 'src/journal/journal.ts',
    passage: "await Promise.all(toCopy.map(({ metadata, attempts }) => appendUsingBallast({ kind: 'opened', metadata, attempts })));",
    replacement: '',
    seeds: 3,
  },
  {
    name: 'recovery drops interrupted calls',
    file: 'src/journal/recover.ts',
    passage: 'await batches.storeAll(unknown);',
    replacement: '',
    seeds: 3,
  },
  {
    name: 'the drain goes on after a failed batch',
    file: 'src/journal/drain.ts',
    passage: 'await batches.storeSettled(calls);',
    replacement: 'await batches.storeSettled(calls).catch(() => undefined);',
    seeds: 1,
  },
  {
    name: 'a write is confirmed before it is flushed',
    file: writer,
    passage: 'if (sync) await open.file.sync();',
    replacement: '',
    seeds: 29,
  },
  {
    name: 'the name of a new segment is not flushed',
    file: writer,
    passage: 'if (sync) await files.syncFolder(folder);',
    replacement: '',
    seeds: 29,
  },
  {
    name: 'a large record is confirmed before it is flushed',
    file: 'src/journal/large-records.ts',
    passage: 'if (sync) await file.sync();',
    replacement: '',
    seeds: 232,
  },
  {
    name: 'records are added to a segment that is older than a large record',
    file: writer,
    passage: 'await sealCurrent();\n    const segment = startSegment(true);',
    replacement: 'const segment = startSegment(true);',
    seeds: 2,
  },
  {
    name: 'the record of a rejected call is dropped',
    file: batches,
    passage: 'if (entry.encode && !inQuarantine.has(id) && (await rejectedRecords.keep(id, entry.encode(call)))) inQuarantine.add(id);',
    replacement: '',
    seeds: 1,
  },
  {
    name: 'a retried batch reports its stored calls again',
    file: batches,
    passage: 'for (const { metadata } of calls) done.add(metadata.id);',
    replacement: '',
    seeds: 389,
  },
  {
    name: 'the journal of a live process can be taken over',
    file: 'test/simulation/memory-disk.ts',
    passage: 'if (holder?.isAlive) return null;',
    replacement: '',
    seeds: 2,
  },
  {
    name: 'the journal does not accept calls again',
    file: 'src/journal/journal.ts',
    passage: 'obstacle ??= next;\n    resume.wake(retryIntervalMs);',
    replacement: 'obstacle ??= next;',
    seeds: 27,
  },
  {
    name: 'calls that were not kept in memory are skipped',
    file: 'src/journal/recent-calls.ts',
    passage: 'if (range?.start !== offset) return',
    replacement: 'if (!range) return',
    seeds: 17,
  },
  {
    name: 'what a recovery renamed is not deleted',
    file: 'src/journal/recover.ts',
    passage: 'const errors: unknown[] = await deleteLeftovers(names);',
    replacement: 'const errors: unknown[] = [];',
    seeds: 98,
  },
];
