/**
 * The two steps of a group that call the memory model. No transaction is open during the call; the parsed response and the group's new state
 * are committed together, so a received response is never paid for twice.
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
import { storeConsolidation } from './store-consolidation.ts';
import { storeStatements } from './store-statements.ts';

export type MemoryJob = 'extract' | 'consolidate';

export interface MemoryCall extends StructuredPrompt {
  readonly id: string;
  readonly projectId: string;
  readonly job: MemoryJob;
  readonly batchId: string;
  readonly signal: AbortSignal;
}

/** Result of a call to the memory model. */
export type MemoryResponse =
  | { readonly kind: 'response'; readonly text: string }
  | { readonly kind: 'failure'; readonly failure: GroupFailure };

export interface MemoryModel {
  /** Whether a tier of the job has a model. */
  hasRoute(projectId: string, job: MemoryJob): Promise<boolean>;
  /** Rejects only on internal errors and on abort. */
  complete(call: MemoryCall): Promise<MemoryResponse>;
}

export interface LearnGroupOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly groups: Groups;
  readonly model: MemoryModel;
}

/** A prompt and the parser of its response; the parser returns null when the response is unusable. */
interface Task {
  readonly prompt: StructuredPrompt;
  readonly parse: (response: string) => ((tx: Queries) => Promise<GroupProgress>) | null;
}

export function createLearnGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (key: GroupKey, signal: AbortSignal): Promise<GroupStepResult> => {
    const group = await groups.find(key);
    if (group?.state !== 'waiting') return { kind: 'settled' };
    const messages = await readGroupMessages(database, key);
    const recalled = await readRecalledTexts(database, key);
    const task: Task | null =
      messages.length === 0
        ? null
        : {
            prompt: buildExtractionPrompt(messages, group.focus),
            parse: (response) => {
              const extraction = parseExtraction(response, messages, recalled);
              if (extraction === null) return null;
              return async (tx) => {
                const { written, repeated } = await storeStatements(tx, { group, statements: extraction.statements, clock });
                return { state: written > 0 ? 'learned' : 'done', written, repeated, dropped: extraction.dropped };
              };
            },
          };
    return runTask(options, { group, job: 'extract', task, signal });
  };
}

export function createConsolidateGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (key: GroupKey, signal: AbortSignal): Promise<GroupStepResult> => {
    const group = await groups.find(key);
    if (group?.state !== 'learned') return { kind: 'settled' };
    const context = await loadContext(database, group);
    const task: Task | null = context && {
      prompt: buildConsolidationPrompt(context),
      parse: (response) => {
        const consolidation = parseConsolidation(response, context);
        if (consolidation === null) return null;
        return async (tx) => ({ state: 'done', ...(await storeConsolidation(tx, { group, context, consolidation, clock })) });
      },
    };
    return runTask(options, { group, job: 'consolidate', task, signal });
  };
}

interface Run {
  readonly group: Group;
  readonly job: MemoryJob;
  /** Null when there is nothing to send. */
  readonly task: Task | null;
  readonly signal: AbortSignal;
}

/** Runs one attempt. */
async function runTask({ database, groups, model, clock }: LearnGroupOptions, { group, job, task, signal }: Run): Promise<GroupStepResult> {
  if (task === null) {
    await groups.settle(group, async () => ({ state: 'done' }));
    return { kind: 'settled' };
  }
  const { projectId, batchId } = group;
  if (!(await readProjectMemorySettings(database, projectId)).enabled) return groups.fail(group, memoryOff);
  if (!(await model.hasRoute(projectId, job))) return groups.fail(group, noRoute);
  const id = newId(clock.now());
  if (!(await groups.startAttempt(group, id))) return { kind: 'settled' };
  const response = await model.complete({ ...task.prompt, id, projectId, job, batchId, signal });
  if (response.kind === 'failure') return groups.fail(group, response.failure);
  const commit = task.parse(response.text);
  if (commit === null) return groups.fail(group, unusableResponse);
  await groups.settle(group, commit);
  return { kind: 'settled' };
}

const memoryOff: GroupFailure = {
  kind: 'blocked',
  code: 'memory_off',
  message: 'memory is off for the project: turn it on, and the batch goes on',
};
const noRoute: GroupFailure = {
  kind: 'blocked',
  code: 'no_route',
  message: 'no tier for memory has a model: set one of memory-extract, trivial',
};
const unusableResponse: GroupFailure = {
  kind: 'unusable',
  code: 'unusable_answer',
  message: 'the model did not answer with the JSON it was asked for',
};
