/**
 * The two steps of a group that ask the memory model. No transaction is open while it is asked; what comes of an answer is committed at once,
 * with the group's new state, so that no answer that arrived is paid for again.
 */
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { Database, Queries } from '../../db/database.ts';
import { readMemorySettingsOf } from '../records/settings.ts';
import { askToConsolidate, readConsolidation } from './consolidation.ts';
import { askForMemories, type ModelQuestion, readMemories } from './extraction.ts';
import { readGroupMessages, readRecalledTexts } from './group-messages.ts';
import type { Failure, Group, GroupName, Groups, LearningStep, Progress } from './groups.ts';
import { readKnown } from './load-context.ts';
import { storeConsolidation } from './store-consolidation.ts';
import { storeStatements } from './store-statements.ts';

export type MemoryJob = 'extract' | 'consolidate';

export interface MemoryCall extends ModelQuestion {
  readonly id: string;
  readonly projectId: string;
  readonly job: MemoryJob;
  readonly batchId: string;
  readonly signal: AbortSignal;
}

/** What came of a call to the memory model. */
export type MemoryAnswer = { readonly kind: 'answer'; readonly text: string } | { readonly kind: 'failure'; readonly failure: Failure };

export interface MemoryModel {
  /** Whether a tier of the job has a chain (specification 4.8 rule 9). */
  hasRoute(projectId: string, job: MemoryJob): Promise<boolean>;
  /** Rejects only for faults of ours and when it is called off. */
  ask(call: MemoryCall): Promise<MemoryAnswer>;
}

export interface LearnGroupOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly groups: Groups;
  readonly model: MemoryModel;
}

/** What to ask, and what to do with the answer; null: it is of no use. */
interface Task {
  readonly question: ModelQuestion;
  readonly read: (answer: string) => ((tx: Queries) => Promise<Progress>) | null;
}

export function createLearnGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (name: GroupName, signal: AbortSignal): Promise<LearningStep> => {
    const group = await groups.find(name);
    if (group?.state !== 'waiting') return { kind: 'settled' };
    const messages = await readGroupMessages(database, name);
    const recalled = await readRecalledTexts(database, name);
    const task: Task | null =
      messages.length === 0
        ? null
        : {
            question: askForMemories(messages, group.focus),
            read: (answer) => {
              const read = readMemories(answer, messages, recalled);
              if (read === null) return null;
              return async (tx) => {
                const { written, repeated } = await storeStatements(tx, { group, statements: read.statements, clock });
                return { state: written > 0 ? 'learned' : 'done', written, repeated, dropped: read.dropped };
              };
            },
          };
    return runTask(options, { group, job: 'extract', task, signal });
  };
}

export function createConsolidateGroup(options: LearnGroupOptions) {
  const { database, clock, groups } = options;
  return async (name: GroupName, signal: AbortSignal): Promise<LearningStep> => {
    const group = await groups.find(name);
    if (group?.state !== 'learned') return { kind: 'settled' };
    const known = await readKnown(database, group);
    const task: Task | null = known && {
      question: askToConsolidate(known),
      read: (answer) => {
        const consolidation = readConsolidation(answer, known);
        if (consolidation === null) return null;
        return async (tx) => ({ state: 'done', ...(await storeConsolidation(tx, { group, known, consolidation, clock })) });
      },
    };
    return runTask(options, { group, job: 'consolidate', task, signal });
  };
}

interface Run {
  readonly group: Group;
  readonly job: MemoryJob;
  /** Null: there is nothing to ask. */
  readonly task: Task | null;
  readonly signal: AbortSignal;
}

/** One try. */
async function runTask({ database, groups, model, clock }: LearnGroupOptions, { group, job, task, signal }: Run): Promise<LearningStep> {
  if (task === null) {
    await groups.settle(group, async () => ({ state: 'done' }));
    return { kind: 'settled' };
  }
  const { projectId, batchId } = group;
  if (!(await readMemorySettingsOf(database, projectId)).enabled) return groups.fail(group, memoryOff);
  if (!(await model.hasRoute(projectId, job))) return groups.fail(group, noRoute);
  const id = newId(clock.now());
  if (!(await groups.beginTry(group, id))) return { kind: 'settled' };
  const answer = await model.ask({ ...task.question, id, projectId, job, batchId, signal });
  if (answer.kind === 'failure') return groups.fail(group, answer.failure);
  const commit = task.read(answer.text);
  if (commit === null) return groups.fail(group, unusableAnswer);
  await groups.settle(group, commit);
  return { kind: 'settled' };
}

const memoryOff: Failure = {
  kind: 'held',
  code: 'memory_off',
  message: 'memory is off for the project: turn it on, and the batch goes on',
};
const noRoute: Failure = {
  kind: 'held',
  code: 'no_route',
  message: 'no tier for memory has a model: set one of memory-extract, trivial',
};
const unusableAnswer: Failure = {
  kind: 'unusable',
  code: 'unusable_answer',
  message: 'the model did not answer with the JSON it was asked for',
};
