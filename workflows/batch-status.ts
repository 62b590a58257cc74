/** What a batch shows of its groups while it runs. */
import { type BatchSummary, callUnderWay, type GroupWait } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { timeAfter } from './poll-until.ts';
import { createRunStatus, type RunState } from './run-status.ts';

/** The activities of a group. */
export type GroupStep = 'learnGroup' | 'consolidateGroup';

export interface BatchStatus {
  opened(pending: number, total: number | undefined): void;
  /** Returns the summary of the activity. */
  runs(step: GroupStep, position: number, attempt: number): string;
  waits(step: GroupStep, position: number, wait: { readonly waitMs: number } & Partial<GroupWait>): void;
  settled(position: number): void;
  /** Returns the message of the failure. */
  parked(batch: BatchSummary): string;
  ended(outcome: 'done' | 'gone'): void;
}

interface GroupStatus {
  readonly state: RunState;
  readonly line: string;
}

/** Keeps the details short in a batch of many groups. */
const maxGroupLines = 20;

export function createBatchStatus(batchId: string): BatchStatus {
  const show = createRunStatus({ state: 'running' });
  const groups = new Map<number, GroupStatus>();
  let pending = 0;
  let total = 0;

  const showGroups = (): void => {
    const lines = [...groups.values()];
    const state = (['running', 'retrying', 'waiting'] as const).find((each) => lines.some((group) => group.state === each)) ?? 'running';
    const settled = total - pending;
    const details = lines.slice(0, maxGroupLines).map(({ line }) => line);
    show({ state, groups: total, settled }, [note('batchProgress', settled, total), ...details]);
  };

  return {
    opened(pendingNow, totalNow = pendingNow) {
      [pending, total] = [pendingNow, totalNow];
      groups.clear();
      showGroups();
    },
    runs(step, position, attempt) {
      groups.set(position, { state: 'running', line: note('groupRuns', position + 1, step, attempt) });
      showGroups();
      return note(step, position + 1, total, attempt);
    },
    waits(step, position, { waitMs, attempts = 0, code = 'unknown', blocked = false }) {
      const next = formatClockTime(timeAfter(waitMs));
      const isWaiting = blocked || code === callUnderWay;
      const waiting = blocked ? note('groupBlocked', position + 1, code, next) : note('groupAwaitsCall', position + 1, next);
      const line = isWaiting ? waiting : note('groupWaits', position + 1, step, code, attempts, next);
      groups.set(position, { state: isWaiting ? 'waiting' : 'retrying', line });
      showGroups();
    },
    settled(position) {
      groups.delete(position);
      pending -= 1;
      showGroups();
    },
    parked({ parked, groups: count, unusable, code }) {
      const message = note('groupsParked', parked, count, unusable, code ?? 'unknown', batchId);
      show({ state: 'parked', groups: count, parked, code }, [message]);
      return message;
    },
    ended(outcome) {
      show({ state: 'done', groups: total, outcome }, [note('ended', outcome)]);
    },
  };
}
