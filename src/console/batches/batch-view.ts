/** Parts of pages that show learning batches. */
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
  // Waits for its first try: pages are built some time after the change that caused it.
  if (state === 'retrying' && error === null && attempts === 0) return badge('Scheduled');
  return badge(...states[state]);
}

/** Whether a replay would change something. */
export function mayReplay(state: BatchState): boolean {
  return state !== 'done' && state !== 'running';
}

/** `3 memories, 1 merged, 2 facts`. */
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
