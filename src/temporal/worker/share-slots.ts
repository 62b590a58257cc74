/**
 * Shares the worker's activity slots between projects. An activity occupies its slot until it ends, and a call to a
 * model can take minutes. Fairness keys don't help against that, because they only decide which task starts next.
 *
 * So if a project already has enough running activities of a kind, we turn its next one away: the attempt fails before
 * it has done anything, and Temporal repeats it after a delay. We only count what's running. The waiting activities
 * stay in Temporal, where operators can see them.
 */
import { ApplicationFailure, ApplicationFailureCategory, type RetryPolicy } from '@temporalio/common';
import { turnedAway } from '../../../workflows/contract.ts';
import { note } from '../../../workflows/notes.ts';

interface Kind {
  /** How many activities of this kind can run at the same time. */
  readonly slots: number;
  readonly perProject: number;
}

/**
 * Each kind has slots of its own, so if all learning waits for slow models, erasures still go on. Most activities in
 * these slots just wait for the network.
 *
 * A project's activities can all be waiting for a database lock, e.g. of its own import, and each of them then holds a
 * connection. So together, the limits of a project mustn't exceed the size of the connection pool.
 */
const kinds = {
  /** Three is also the number of groups that a batch processes at the same time. */
  learning: { slots: 60, perProject: 3 },
  /** The local embedder processes one text at a time, and more requests than this would run into timeouts. */
  embedding: { slots: 10, perProject: 1 },
  video: { slots: 10, perProject: 3 },
  other: { slots: 20, perProject: 3 },
} as const satisfies Record<string, Kind>;

type KindName = keyof typeof kinds;

const kindNames = Object.keys(kinds) as KindName[];

/** The number of slots that a worker needs. */
export const activitySlots = kindNames.reduce((sum, name) => sum + kinds[name].slots, 0);

const kindOfActivity: Readonly<Record<string, KindName>> = {
  learnGroup: 'learning',
  consolidateGroup: 'learning',
  embedPassages: 'embedding',
  pollVideo: 'video',
};

/** A project can only take this share of a kind's free slots. As they run out, every project gets fewer of them. */
const shareOfFree = 0.25;
const minSpacingMs = 50;
const maxSpacingMs = 2_000;
const maxDelayMs = 5 * 60_000;

export interface SlotRequest {
  readonly activityType: string;
  readonly isLocal: boolean;
  readonly priority?: { readonly fairnessKey?: string };
  readonly retryPolicy?: RetryPolicy;
  readonly workflowExecution?: { readonly workflowId: string } | undefined;
}

/** The running activities of a project and kind. */
interface Share {
  held: number;
  takenAt: number;
  /** When the last of the activities that we've turned away will be back. */
  lastRetryAt: number;
}

export function createSlotShares(now = (): number => performance.now()) {
  const used: Record<KindName, number> = { learning: 0, embedding: 0, video: 0, other: 0 };
  const shares = new Map<string, Share>();

  return {
    /**
     * Takes a slot. If the project has none left, throws the failure with which the attempt has to end. Call the
     * returned function when the activity has ended.
     */
    take(request: SlotRequest): () => void {
      const kind = kindOfActivity[request.activityType] ?? 'other';
      const key = `${kind} ${findProject(request)}`;
      const share = shares.get(key) ?? { held: 0, takenAt: now(), lastRetryAt: 0 };
      shares.set(key, share);
      const { slots, perProject } = kinds[kind];
      const limit = Math.min(perProject, Math.ceil((slots - used[kind]) * shareOfFree));
      if (share.held >= limit && isRepeated(request)) throw turnAway(delayRetry(share));
      used[kind] += 1;
      share.held += 1;
      share.takenAt = now();
      return () => {
        used[kind] -= 1;
        share.held -= 1;
        if (share.held === 0) shares.delete(key);
      };
    },
  };

  /**
   * Returns when to retry. The retries of a project are spaced out, so that however many activities it has, they never
   * keep the Temporal server busy. The longer no slot has become free, the longer the spacing.
   */
  function delayRetry(share: Share): number {
    const spacingMs = Math.min(maxSpacingMs, Math.max(minSpacingMs, (now() - share.takenAt) / 4));
    share.lastRetryAt = Math.min(now() + maxDelayMs, Math.max(now(), share.lastRetryAt) + spacingMs);
    // Add jitter, because otherwise all activities that wait for the longest delay would return at the same time.
    return (share.lastRetryAt - now()) * (0.75 + Math.random() / 2);
  }
}

/**
 * Returns the id of the project. Servers older than 1.29 drop the fairness key, but most workflow ids contain the
 * project, too. On these servers, the videos of all projects share their slots, and so do their erasures.
 */
function findProject({ priority, workflowExecution }: SlotRequest): string {
  const [kind = '', project = ''] = workflowExecution?.workflowId.split('/') ?? [];
  return priority?.fairnessKey || (kind === 'learning' || kind === 'embedding' ? project : kind);
}

/**
 * Checks whether Temporal repeats the activity however often we turn it away. That's not the case if an older version
 * has scheduled it, so such an activity can exceed the limit.
 */
function isRepeated({ retryPolicy }: SlotRequest): boolean {
  return retryPolicy !== undefined && (retryPolicy.maximumAttempts ?? 0) === 0;
}

function turnAway(delayMs: number): ApplicationFailure {
  const failure = ApplicationFailure.create({
    message: note('turnedAway'),
    type: turnedAway,
    nextRetryDelay: Math.ceil(delayMs),
    // The SDK logs failures as warnings unless they're benign.
    category: ApplicationFailureCategory.BENIGN,
  });
  failure.stack = `${failure.name}: ${failure.message}`;
  return failure;
}

/** Creates an activity interceptor. Local activities don't have slots of their own. */
export function shareSlots({ take }: ReturnType<typeof createSlotShares>) {
  return ({ info }: { readonly info: SlotRequest }) => ({
    inbound: {
      async execute<Input>(input: Input, next: (input: Input) => Promise<unknown>): Promise<unknown> {
        if (info.isLocal) return next(input);
        const release = take(info);
        try {
          return await next(input);
        } finally {
          release();
        }
      },
    },
  });
}
