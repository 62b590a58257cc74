/**
 * Shares the thread that matches content rules between projects. A project gets its turn by the processor time that it has used, as in fair
 * queueing: one with little work does not wait for another with much, only for the turn that is running.
 *
 * What a project may have waiting is bounded, and so is the processor time of a call. Only calls of the same project are refused for it.
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
  /** Aborting it ends the work, and rejects with its reason. */
  readonly signal: AbortSignal | undefined;
}

export interface RuleOutcome {
  /** The rules that match, up to the first that blocks. */
  readonly matched: ReadonlySet<ContentRule>;
  /** Why not all rules were evaluated on all texts; null when they were. */
  readonly stopped: string | null;
  /** The error that broke the thread, for the log. */
  readonly cause?: unknown;
}

export interface RuleQueue {
  /** Rejects with `budget_unavailable` when too much of the project is waiting. */
  run(work: RuleWork): Promise<RuleOutcome>;
}

export interface RuleQueueOptions {
  readonly thread: RuleThread;
  /** Of one call, in processor time. */
  readonly maxCallMs: number;
  readonly maxWaitingCalls: number;
  readonly maxWaitingCharacters: number;
}

/** Two bodies of the largest size may wait. */
const defaults = { maxCallMs: 10_000, maxWaitingCalls: 1_000, maxWaitingCharacters: 64 * 1024 * 1024 };

/** Characters that are sent to the thread at once. */
const batchLength = 32 * 1024;

interface Task extends Pick<RuleWork, 'rules'> {
  readonly length: number;
  readonly batches: Iterator<readonly TextChunk[]>;
  readonly matched: Set<ContentRule>;
  readonly outcome: PromiseWithResolvers<RuleOutcome>;
  /** The rest of a batch; null before the next one. */
  batch: Batch | null;
  usedMicros: number;
  isEnded: boolean;
}

interface Batch {
  readonly chunks: readonly TextChunk[];
  /** Without those that have matched before. */
  readonly rules: readonly ContentRule[];
  readonly from: MatchPosition;
}

interface Share {
  readonly tasks: Task[];
  /** Virtual time: of projects that have work, the one with the least is served next. */
  usedMicros: number;
}

export function createRuleQueue(options: Partial<RuleQueueOptions> = {}): RuleQueue {
  const { thread = createRuleThread(), maxCallMs, maxWaitingCalls, maxWaitingCharacters } = { ...defaults, ...options };
  const shares = new Map<string, Share>();
  /** Virtual time of the project that was served last, at which a project without work begins. */
  let virtualMicros = 0;
  let isRunning = false;

  const serve = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    for (let next = nextProject(); next !== null; next = nextProject()) await serveProject(next[1]);
    isRunning = false;
  };

  /** A project without work keeps what it has used while others have work. */
  const nextProject = (): [string, Share] | null => {
    let next: [string, Share] | null = null;
    for (const entry of shares) if (entry[1].tasks.length > 0 && (next === null || entry[1].usedMicros < next[1].usedMicros)) next = entry;
    if (next === null) shares.clear();
    return next;
  };

  /** Gives the project a turn. Its calls take turns too. */
  const serveProject = async (share: Share): Promise<void> => {
    virtualMicros = share.usedMicros;
    const task = share.tasks.shift();
    if (task) {
      share.usedMicros += await advance(task);
      if (!task.isEnded) share.tasks.push(task);
    }
  };

  /** Returns the used processor time in microseconds. */
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
      else if (task.usedMicros > maxCallMs * 1_000) settle(task, `takes more than ${maxCallMs / 1_000} seconds of processor time`);
      return cpuMicros;
    } catch (cause) {
      // The thread broke, and only this task can be the reason. The others continue in another thread.
      settle(task, 'needs too much memory or time', cause);
      return maxCallMs * 1_000;
    }
  };

  return {
    run({ project, rules, texts, signal }) {
      const length = texts.reduce((sum, text) => sum + text.length, 0);
      const share = shares.get(project) ?? { tasks: [], usedMicros: virtualMicros };
      const waiting = share.tasks.reduce((sum, task) => sum + task.length, 0);
      if (share.tasks.length >= maxWaitingCalls || (waiting > 0 && waiting + length > maxWaitingCharacters))
        return Promise.reject(gatewayError('budget_unavailable', { message: "too many texts wait for the project's content rules" }));
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
