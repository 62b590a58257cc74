import type { Batch, BatchProgress, BatchState } from '../../memory/learning/batches.ts';
import { badge, formatCount, type Tone } from '../frame/components.ts';
import { type Html, html } from '../frame/html.ts';

export const kindLabels: Readonly<Record<Batch['kind'], string>> = { normal: 'New messages', remember: 'Remember', page: 'Page' };

export const stateLabels: Readonly<Record<BatchState, string>> = {
  running: 'Running',
  waiting: 'Waiting',
  retrying: 'Retrying',
  failing: 'Failing',
  done: 'Done',
  failed: 'Failed',
  stopped: 'Stopped',
};

const tones: Readonly<Record<BatchState, Tone>> = {
  running: 'accent',
  waiting: 'warning',
  retrying: 'warning',
  failing: 'bad',
  done: 'good',
  failed: 'bad',
  stopped: 'warning',
};

export function stateBadge({ state, error }: Pick<Batch, 'state' | 'error'>): Html {
  // Batches that update a page wait for a while after a change before they start. All other waiting batches have the
  // error that keeps them from starting.
  if (state === 'waiting' && error === null) return badge('Scheduled');
  return badge(stateLabels[state], tones[state]);
}

/** A batch that's done or still running can't be replayed. */
export function mayReplay(state: BatchState): boolean {
  return state !== 'done' && state !== 'running';
}

/** A batch can be stopped here between two attempts. A running attempt can only be stopped in Temporal. */
export function mayStop(state: BatchState): boolean {
  return mayReplay(state) && state !== 'stopped';
}

/** Sums up what a batch has done, e.g. as `3 memories, 2 facts, 1 merged`. */
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
