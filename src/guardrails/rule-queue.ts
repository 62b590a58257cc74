/**
 * Lets projects share the thread that matches rules. We use fair queueing, i.e. it's always the turn of the project
 * that has used the least processor time so far. A project that rarely has any work never waits for more than the
 * current turn, even if another project is very busy.
 *
 * There's a limit on how much work a project can have waiting, and on the processor time of a call. Projects that
 * exceed the limits get errors for their own calls and don't affect anybody else.
 */
import { gatewayError } from '../core/errors.ts';
import type { ContentRule } from './content-rule.ts';
import { firstPosition, type MatchPosition } from './match-rules.ts';
import { createRuleThread, type RuleThread } from './rule-thread.ts';
import { batchTexts, type TextChunk } from './text-chunks.ts';

export interface RuleWork {
  readonly project: string;
  readonly rules: readonly ContentRule[];
  readonly texts: readonly string[];
  /** Aborting this stops the work, and `run` rejects with the signal's reason. */
  readonly signal: AbortSignal | undefined;
}

export interface RuleOutcome {
  readonly matched: ReadonlySet<ContentRule>;
  /** Why matching stopped early. Null if all rules were applied to all texts. */
  readonly stopped: string | null;
  /** The error that broke the thread. Logging it is up to the caller. */
  readonly cause?: unknown;
}

export interface RuleQueueOptions {
  readonly thread: RuleThread;
  /** How much CPU time all rules of a call may take together. */
  readonly maxCallMs: number;
  readonly maxWaitingCalls: number;
  readonly maxWaitingCharacters: number;
}

/** `maxWaitingCharacters` is enough for two request bodies of the maximum size. */
const defaults = { maxCallMs: 10_000, maxWaitingCalls: 1_000, maxWaitingCharacters: 64 * 1024 * 1024 };

/** The maximum number of characters per request to the thread. */
const batchLength = 32 * 1024;

const queueFull = "too many texts are waiting for the project's content rules; try again in a moment";

interface Task extends Pick<RuleWork, 'rules'> {
  readonly length: number;
  readonly batches: Iterator<readonly TextChunk[]>;
  readonly matched: Set<ContentRule>;
  readonly outcome: PromiseWithResolvers<RuleOutcome>;
  /** The part of the current batch that we haven't matched yet. Null if we still have to fetch the next batch. */
  batch: Batch | null;
  usedMicros: number;
  isEnded: boolean;
}

interface Batch {
  readonly chunks: readonly TextChunk[];
  /** The rules that haven't matched in earlier batches. */
  readonly rules: readonly ContentRule[];
  readonly from: MatchPosition;
}

interface Share {
  readonly tasks: Task[];
  /**
   * The project's virtual time for fair queueing, in microseconds of CPU time. We serve the project with the lowest one
   * next.
   */
  usedMicros: number;
}

export function createRuleQueue(options: Partial<RuleQueueOptions> = {}) {
  const { thread = createRuleThread(), maxCallMs, maxWaitingCalls, maxWaitingCharacters } = { ...defaults, ...options };
  const shares = new Map<string, Share>();
  /**
   * The virtual time of the project that was served last. Projects that were idle start from here, so that they can't
   * save up turns.
   */
  let virtualMicros = 0;
  let isRunning = false;

  const serve = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    for (let next = nextProject(); next !== null; next = nextProject()) await serveProject(next[1]);
    isRunning = false;
  };

  /** Picks the project with the lowest virtual time. If no project has work left, all of them start from zero again. */
  const nextProject = (): [string, Share] | null => {
    let next: [string, Share] | null = null;
    for (const entry of shares) if (entry[1].tasks.length > 0 && (next === null || entry[1].usedMicros < next[1].usedMicros)) next = entry;
    if (next === null) shares.clear();
    return next;
  };

  /** Gives a project one turn with its oldest task. An unfinished task goes to the back of the project's queue. */
  const serveProject = async (share: Share): Promise<void> => {
    virtualMicros = share.usedMicros;
    const task = share.tasks.shift();
    if (task) {
      share.usedMicros += await advance(task);
      if (!task.isEnded) share.tasks.push(task);
    }
  };

  /** Matches a part of the task's texts. Returns the CPU time that it took, in microseconds. */
  const advance = async (task: Task): Promise<number> => {
    const batch = task.batch ?? nextBatch(task);
    if (batch === null) {
      settle(task, null);
      return 0;
    }
    const { rules, chunks, from } = batch;
    try {
      const { matched, next, cpuMicros } = await thread.match({ rules, chunks, from });
      for (const index of matched) {
        const rule = rules[index];
        if (rule) task.matched.add(rule);
      }
      task.batch = next === null ? null : { rules, chunks, from: next };
      task.usedMicros += cpuMicros;
      if ([...task.matched].some(({ action }) => action === 'block')) settle(task, null);
      else if (task.usedMicros > maxCallMs * 1_000) settle(task, `uses more than ${maxCallMs / 1_000} seconds of CPU time`);
      return cpuMicros;
    } catch (cause) {
      // The thread only works on one task at a time, so it was this task that broke it. The next task starts a new
      // thread.
      settle(task, 'uses too much memory or time', cause);
      return maxCallMs * 1_000;
    }
  };

  return {
    /**
     * Matches rules in the thread. Rejects with `budget_unavailable` if the project already has too much work waiting.
     */
    run({ project, rules, texts, signal }: RuleWork): Promise<RuleOutcome> {
      const length = texts.reduce((sum, text) => sum + text.length, 0);
      const share = shares.get(project) ?? { tasks: [], usedMicros: virtualMicros };
      const waiting = share.tasks.reduce((sum, task) => sum + task.length, 0);
      if (share.tasks.length >= maxWaitingCalls || (waiting > 0 && waiting + length > maxWaitingCharacters))
        return Promise.reject(gatewayError('budget_unavailable', { message: queueFull }));
      const outcome = Promise.withResolvers<RuleOutcome>();
      const batches = batchTexts(texts, batchLength);
      const task: Task = { length, rules, batches, matched: new Set(), outcome, batch: null, usedMicros: 0, isEnded: false };
      const drop = (): void => {
        task.isEnded = true;
        const at = share.tasks.indexOf(task);
        if (at >= 0) share.tasks.splice(at, 1);
        outcome.reject(signal?.reason);
      };
      if (signal?.aborted) drop();
      else {
        signal?.addEventListener('abort', drop, { once: true });
        share.usedMicros = Math.max(share.usedMicros, virtualMicros);
        share.tasks.push(task);
        shares.set(project, share);
        void serve();
      }
      return outcome.promise.finally(() => signal?.removeEventListener('abort', drop));
    },
  };
}

function nextBatch({ batches, rules, matched }: Task): Batch | null {
  const { value, done } = batches.next();
  if (done) return null;
  return { chunks: value, rules: rules.filter((rule) => !matched.has(rule)), from: firstPosition };
}

function settle(task: Task, stopped: string | null, cause?: unknown): void {
  task.isEnded = true;
  task.outcome.resolve({ matched: task.matched, stopped, cause });
}
