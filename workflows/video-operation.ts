/**
 * Polls the vendor until a video has ended and its cost is settled, even if no client asks for the video any more. Each
 * video has one run.
 *
 * The activity polls, settles, and returns how long to wait. If the vendor is unreachable, the run waits rather than
 * failing.
 */
import { continueAsNew, proxyActivities } from '@temporalio/workflow';
import type { Activities, VideoEnd, VideoOperationInput } from './contract.ts';
import { formatClockTime, note } from './notes.ts';
import { pollUntil, timeAfter } from './poll-until.ts';
import { createRetries, recovering, retryTurnedAway } from './retries.ts';
import { createRunStatus } from './run-status.ts';

const options = { startToCloseTimeout: '2 minutes', heartbeatTimeout: '12 seconds', retry: retryTurnedAway } as const;
const { pollVideo } = proxyActivities<Activities>(options);

export interface VideoOperationResult {
  /** How the video ended. `settled` means that an older version finished the run without recording the outcome. */
  readonly outcome: VideoEnd['outcome'] | 'gone' | 'settled';
  readonly code: string | null;
  readonly polls: number;
}

export async function videoOperation(input: VideoOperationInput): Promise<VideoOperationResult> {
  const continueRun = () => continueAsNew<typeof videoOperation>(input);
  const show = createRunStatus({ state: 'running', polls: 0 });
  const retry = createRetries(show, continueRun);
  let polls = 0;
  const end = await pollUntil(
    (count) => {
      polls = count;
      const poll = () => pollVideo.executeWithOptions({ ...options, summary: note('pollVideo', count) }, [input]);
      return retry(poll, recovering, { facts: { polls } });
    },
    ({ unreachable = false, giveUpMs }, nextAt) => {
      const next = formatClockTime(nextAt);
      const limit = giveUpMs === undefined ? [] : [note('videoGivesUp', formatClockTime(timeAfter(giveUpMs)))];
      const advice = note(unreachable ? 'nextVideoUnreachable' : 'nextByItself');
      const details = [note(unreachable ? 'videoUnreachable' : 'videoRuns', polls, next), ...limit, advice];
      show({ state: unreachable ? 'retrying' : 'running', polls, next_at: nextAt.toISOString() }, details);
      return note(unreachable ? 'nextPollUnreachable' : 'nextPoll', next);
    },
    continueRun,
  );
  const { outcome, code = null }: Partial<VideoEnd> = end.kind === 'settled' ? end : {};
  const result: VideoOperationResult = { outcome: outcome ?? end.kind, code, polls };
  if (outcome === 'vendor_failed')
    show({ state: 'failed', ...result }, [note('videoFailed', code ?? 'FAILED'), adviseCaller(code), note('videoFailedState')]);
  else if (outcome === 'unknown') show({ state: 'failed', ...result }, [note('videoUnknown'), note('nextNothing')]);
  else show({ state: 'done', ...result }, [note(endNotes[outcome ?? end.kind]), note('nextNothing')]);
  return result;
}

const endNotes = { completed: 'videoCompleted', gone: 'videoGone', settled: 'videoSettled' } as const;

const codesByAdvice = {
  'vendorCode:filtered': ['FILTERED'],
  'vendorCode:empty': ['NO_VIDEO'],
  'vendorCode:request': ['INVALID_ARGUMENT', 'FAILED_PRECONDITION', 'OUT_OF_RANGE', 'NOT_FOUND', 'CODE_3', 'CODE_5', 'CODE_9', 'CODE_11'],
  'vendorCode:credentials': ['PERMISSION_DENIED', 'UNAUTHENTICATED', 'CODE_7', 'CODE_16'],
  'vendorCode:quota': ['RESOURCE_EXHAUSTED', 'CODE_8'],
} as const;

/** Returns advice for the caller about a vendor's error code. Numeric codes come from gRPC. */
function adviseCaller(code: string | null): string {
  for (const [name, codes] of Object.entries(codesByAdvice) as [keyof typeof codesByAdvice, readonly string[]][])
    if (code !== null && codes.includes(code)) return note(name);
  return note('vendorCode:other');
}
