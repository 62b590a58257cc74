/** A store in memory, for tests in which a project is locked. */
import type { SettledCall } from '../../src/core/call.ts';
import type { StoreCalls } from '../../src/journal/batch-store.ts';
import { settledCall, withText } from './calls.ts';

export const [locked, other] = ['01900000-0000-7000-8000-00000000000a', '01900000-0000-7000-8000-00000000000b'];

const request = JSON.stringify({ model: 'standard', messages: [{ role: 'user', content: 'hello' }] });

export function callOf(projectId: string, text = request): SettledCall {
  return settledCall({ metadata: { projectId }, content: withText(text) });
}

export function projectsOf(batch: readonly SettledCall[]): string[] {
  return batch.map(({ metadata }) => metadata.projectId);
}

export function lockTimeout(): Error {
  return Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' });
}

/** While `isLocked` is true, batches with calls of the locked project fail. */
export function createLockedStore() {
  const state = {
    isLocked: true,
    tries: 0,
    batches: [] as (readonly SettledCall[])[],
    store: (async (_tx, calls) => {
      state.tries += 1;
      if (state.isLocked && projectsOf(calls).includes(locked)) throw lockTimeout();
      state.batches.push(calls);
    }) satisfies StoreCalls,
  };
  return state;
}
