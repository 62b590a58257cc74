import { patched } from '@temporalio/workflow';
import { type BatchSummary, callUnderWay, type GroupWait, maxUnusableResponses, type PendingGroup } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { timeAfter } from './poll-until.ts';
import { createRunStatus, type RunState, toAdvice } from './run-status.ts';

export type GroupStep = 'learnGroup' | 'consolidateGroup';

type ShownWait = { readonly waitMs: number } & Partial<GroupWait>;

interface GroupStatus {
  readonly state: RunState;
  readonly line: string;
  readonly advice?: string;
}

/** Limits how many groups we list in the details in Temporal's UI. */
const maxGroupLines = 20;

const verbs = { learnGroup: 'learn', consolidateGroup: 'consolidate' } as const;

export function createBatchStatus(batchId: string) {
  const show = createRunStatus({ state: 'running' }, [], note('nextReplayCancelled', batchId));
  const groups = new Map<number, GroupStatus>();
  let pending = 0;
  let total = 0;
  let parkedNow = 0;

  const showGroups = (): void => {
    const shown = [...groups.values()];
    const state = (['running', 'retrying', 'waiting'] as const).find((each) => shown.some((group) => group.state === each)) ?? 'running';
    const settled = total - pending;
    const lines = shown.slice(0, maxGroupLines).map(({ line }) => line);
    const advice = new Set(shown.flatMap((group) => group.advice ?? []));
    show({ state, groups: total, settled }, [
      note('batchProgress', settled, total),
      ...(advice.size > 0 ? advice : [note('nextByItself')]),
      ...lines,
      ...(state === 'retrying' ? [note('triesAgain')] : []),
    ]);
  };

  const describeWait = (step: GroupStep, position: number, wait: ShownWait): GroupStatus => {
    const { waitMs, attempts = 0, code = 'unknown', blocked = false, unusable } = wait;
    const next = formatClockTime(timeAfter(waitMs));
    const group = [verbs[step], position + 1, total] as const;
    // Older versions reported `retrying`. The state is a search attribute, and updating it is a command.
    if (isScheduled(wait) && patched('scheduled-groups')) return { state: 'waiting', line: note('groupScheduled', ...group, next) };
    if (blocked) return { state: 'waiting', line: note('groupBlocked', ...group, code, next), advice: toAdvice(code) };
    if (code === callUnderWay) return { state: 'waiting', line: note('groupAwaitsCall', ...group, next) };
    if (unusable !== undefined && unusable >= maxUnusableResponses) {
      const advice = note(code === 'unusable_answer' ? 'nextFailingUnusable' : 'nextFailing', batchId);
      return { state: 'retrying', line: note('groupFailing', ...group, attempts, unusable, code, next), advice };
    }
    const line = unusable
      ? note('groupUnusable', ...group, attempts, unusable, maxUnusableResponses, code, next)
      : note('groupFailed', ...group, attempts, code, next);
    return { state: 'retrying', line, advice: toAdvice(code) };
  };

  return {
    show,
    opened(pendingNow: readonly PendingGroup[], totalNow = pendingNow.length): void {
      [pending, total, parkedNow] = [pendingNow.length, totalNow, 0];
      groups.clear();
      for (const { position, waitMs, attempts, code, step = 'learnGroup', blocked } of pendingNow)
        if (waitMs > 0 && patched('visible-retries'))
          groups.set(position, describeWait(step, position, { waitMs, attempts, ...(code && { code }), ...(blocked && { blocked }) }));
      showGroups();
    },
    runs(step: GroupStep, position: number, attempt: number): string {
      groups.set(position, { state: 'running', line: note('groupRuns', verbs[step], position + 1, total, attempt) });
      showGroups();
      return note('groupStep', verbs[step], position + 1, total, attempt);
    },
    /** Returns the summary for an activity that skips a group. */
    skips: (position: number, outcome: 'parked' | 'done'): string => note('groupSkipped', position + 1, total, outcome),
    waits(step: GroupStep, position: number, wait: ShownWait): string {
      const status = describeWait(step, position, wait);
      groups.set(position, status);
      showGroups();
      const values = [verbs[step], position + 1, total, wait.code ?? 'unknown', formatClockTime(timeAfter(wait.waitMs))] as const;
      return note(status.state === 'waiting' ? 'waitingGroup' : 'failedGroup', ...values);
    },
    /** Returns the summary for a timer that waits until a group is due, or for the rest of a delay from an earlier run. */
    waitsAtStart: (group: PendingGroup): string =>
      note(isScheduled(group) ? 'scheduledGroup' : 'pendingGroup', group.position + 1, total, formatClockTime(timeAfter(group.waitMs))),
    settled(position: number, isParked: boolean): void {
      groups.delete(position);
      pending -= 1;
      if (isParked) parkedNow += 1;
      showGroups();
    },
    closes: (): string => note('finishBatch', total - pending, total, parkedNow),
    /** Returns the failure message of a run in which some groups were given up. */
    parked({ parked, groups: count, unusable, code }: BatchSummary): string {
      const message = note('groupsParked', parked, count, unusable, code ?? 'unknown', batchId);
      const advice = code === 'unusable_answer' ? note('nextParkedUnusable') : note('nextParked', code ?? 'unknown');
      show({ state: 'parked', groups: count, parked, code }, [message, advice]);
      return message;
    },
    stopped(): string {
      const message = note('batchStopped', batchId);
      show({ state: 'cancelled', groups: total }, [message, note('nextReplayCancelled', batchId)]);
      return message;
    },
    ended(batch: BatchSummary | null | undefined): void {
      const outcome = batch === null ? 'gone' : 'done';
      show({ state: 'done', groups: total, outcome }, [describeEnd(batch), note('nextNothing')]);
    },
  };
}

/** Returns true if the group hasn't been tried yet, because it starts at a certain time, e.g. to rebuild a page. */
function isScheduled({ attempts, code }: Partial<Pick<PendingGroup, 'attempts' | 'code'>>): boolean {
  return attempts === 0 && !code;
}

function describeEnd(batch: BatchSummary | null | undefined): string {
  if (!batch) return note(batch === null ? 'batchGone' : 'batchEnded');
  const { written, repeated, dropped, merged, facts } = batch;
  return note('batchDone', written, repeated, dropped, merged, facts);
}
