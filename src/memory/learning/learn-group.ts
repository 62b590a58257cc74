/**
 * Runs the two steps of a group that call the memory model. We don't keep a transaction open during the call. What we
 * parse from the response is committed together with the group's new state, so once we've received a response, we never
 * pay for it again.
 */
import type { GroupStepResult } from '../../../workflows/contract.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { readProjectMemorySettings } from '../records/settings.ts';
import { buildConsolidationPrompt, parseConsolidation } from './consolidation.ts';
import { buildExtractionPrompt, parseExtraction, type StructuredPrompt } from './extraction.ts';
import { readGroupMessages, readRecalledTexts } from './group-messages.ts';
import type { Group, GroupFailure, GroupKey, GroupProgress, Groups } from './groups.ts';
import { loadContext } from './load-context.ts';
import type { BatchRun } from './replay.ts';
import { storeConsolidation } from './store-consolidation.ts';
import { storeStatements } from './store-statements.ts';

const replacedCheckMs = 4_000;

export type MemoryJob = 'extract' | 'consolidate';

export interface MemoryCall extends StructuredPrompt {
  readonly id: string;
  readonly projectId: string;
  readonly job: MemoryJob;
  readonly batchId: string;
  readonly signal: AbortSignal;
}

export type MemoryResponse =
  | { readonly kind: 'response'; readonly text: string }
  | { readonly kind: 'failure'; readonly failure: GroupFailure };

export interface MemoryModel {
  hasRoute(projectId: string, job: MemoryJob): Promise<boolean>;
  /**
   * Calls the memory model. A failure of the vendor is part of the response. Rejects only if the signal is aborted or
   * after an internal error.
   */
  complete(call: MemoryCall): Promise<MemoryResponse>;
}

export interface LearnGroupOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly groups: Groups;
  readonly model: MemoryModel;
}

export function createLearnGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (key: GroupKey & BatchRun, signal: AbortSignal): Promise<GroupStepResult> => {
    const group = await groups.find(key);
    if (group?.state !== 'waiting') return { kind: 'settled' };
    const messages = await readGroupMessages(database, key);
    const recalled = await readRecalledTexts(database, key);
    if (messages.length === 0) return groups.settle(group, async () => ({ state: 'done' }));
    return runAttempt(options, {
      group,
      job: 'extract',
      signal,
      prompt: buildExtractionPrompt(messages, group.focus),
      parse: (response) => parseExtraction(response, messages, recalled),
      async store(tx, { statements, refusals }) {
        const { written, repeated } = await storeStatements(tx, { group, statements, clock });
        return { state: written > 0 ? 'learned' : 'done', written, repeated, dropped: refusals.length };
      },
    });
  };
}

export function createConsolidateGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (key: GroupKey & BatchRun, signal: AbortSignal): Promise<GroupStepResult> => {
    const group = await groups.find(key);
    if (group?.state !== 'learned') return { kind: 'settled' };
    const context = await loadContext(database, group);
    if (context === null) return groups.settle(group, async () => ({ state: 'done' }));
    return runAttempt(options, {
      group,
      job: 'consolidate',
      signal,
      prompt: buildConsolidationPrompt(context),
      parse: (response) => parseConsolidation(response, context),
      store: async (tx, consolidation) => ({ state: 'done', ...(await storeConsolidation(tx, { group, context, consolidation, clock })) }),
    });
  };
}

interface Attempt<Parsed> {
  readonly group: Group;
  readonly job: MemoryJob;
  readonly signal: AbortSignal;
  readonly prompt: StructuredPrompt;
  /** Returns null if the response is unusable. */
  readonly parse: (response: string) => Parsed | null;
  readonly store: (tx: Queries, parsed: Parsed) => Promise<GroupProgress>;
}

async function runAttempt<Parsed>(
  { database, groups, model, clock }: LearnGroupOptions,
  { group, job, signal, prompt, parse, store }: Attempt<Parsed>,
): Promise<GroupStepResult> {
  const { projectId, batchId } = group;
  if (!(await readProjectMemorySettings(database, projectId)).enabled) return groups.fail(group, memoryOff);
  if (!(await model.hasRoute(projectId, job))) return groups.fail(group, noRoute);
  const id = newId(clock.now());
  if (!(await groups.startAttempt(group, id))) return groups.awaitCall(group);
  const response = await unlessReplaced({ groups, group, id, signal }, (callSignal) =>
    model.complete({ ...prompt, id, projectId, job, batchId, signal: callSignal }),
  );
  if (response.kind === 'failure') return groups.fail(group, response.failure, id);
  const parsed = parse(response.text);
  return parsed === null ? groups.fail(group, unusableResponse, id) : groups.settle(group, (tx) => store(tx, parsed));
}

interface StartedCall {
  readonly groups: Groups;
  readonly group: Group;
  readonly id: string;
  readonly signal: AbortSignal;
}

/**
 * Aborts the call once a newer call for the group has started. That happens if our activity missed its heartbeats:
 * Temporal then retries it, although we may still be running.
 */
async function unlessReplaced<Result>(
  { groups, group, id, signal }: StartedCall,
  call: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const replaced = new AbortController();
  const check = async (): Promise<void> => {
    if (await groups.isReplaced(group, id)) replaced.abort();
  };
  // Ignore errors, because the next check is only seconds away.
  const timer = setInterval(() => void check().catch(() => undefined), replacedCheckMs);
  try {
    return await call(AbortSignal.any([signal, replaced.signal]));
  } finally {
    clearInterval(timer);
  }
}

const memoryOff: GroupFailure = {
  kind: 'blocked',
  code: 'memory_off',
  message: 'memory is off for this project; turn it on to resume the batch',
};
const noRoute: GroupFailure = {
  kind: 'blocked',
  code: 'no_route',
  message: 'no model is configured for learning: add one to the tier memory-extract or trivial',
};
const unusableResponse: GroupFailure = {
  kind: 'unusable',
  code: 'unusable_answer',
  message: 'the model did not return the requested JSON',
};
