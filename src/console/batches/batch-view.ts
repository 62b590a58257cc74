/** Labels, badges and summaries shared by the pages about learning batches. */
import type { Batch, BatchProgress, BatchState } from '../../memory/learning/batches.ts';
import { badge, formatCount, type Tone } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';

export const kindLabels: Readonly<Record<Batch['kind'], string>> = { normal: 'New messages', remember: 'Remember', page: 'Page' };

const states: Readonly<Record<BatchState, readonly [label: string, tone: Tone]>> = {
  running: ['Running', 'accent'],
  waiting: ['Waiting', 'warning'],
  retrying: ['Retrying', 'warning'],
  failing: ['Failing', 'bad'],
  done: ['Done', 'good'],
  failed: ['Failed', 'bad'],
  stopped: ['Stopped', 'warning'],
};

export function stateLabel(state: BatchState): string {
  return states[state][0];
}

export function stateBadge({ state, error, attempts }: Pick<Batch, 'state' | 'error' | 'attempts'>): Html {
  // No attempt has been made yet. A batch for a page waits a while after the change that it's for.
  if (state === 'retrying' && error === null && attempts === 0) return badge('Scheduled');
  return badge(...states[state]);
}

/** Checks whether the batch can be replayed, which makes no sense if it's done or still running. */
export function mayReplay(state: BatchState): boolean {
  return state !== 'done' && state !== 'running';
}

/** Returns true if people can stop the batch here. While an attempt is running, they can only do that in Temporal. */
export function mayStop(state: BatchState): boolean {
  return mayReplay(state) && state !== 'stopped';
}

/** Summarizes the results of a batch, e.g. as `3 memories, 2 facts, 1 merged`. */
export function resultOf({ written, merged, repeated, dropped, facts }: BatchProgress): Html | string {
  const counted = [
    [written, written === 1 ? 'memory' : 'memories'],
    [facts, facts === 1 ? 'fact' : 'facts'],
    [merged, 'merged'],
    [repeated, 'repeated'],
    [dropped, 'dropped'],
  ] as const;
  const parts = counted.filter(([count]) => count > 0).map(([count, label]) => `${formatCount(count)} ${label}`);
  return parts.length === 0 ? html`<span class="muted">–</span>` : parts.join(', ');
}
