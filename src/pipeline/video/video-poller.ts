/**
 * Polls running videos at their vendor and settles their results. If a caller and the polling workflow poll the same
 * video, they share a request to the vendor.
 */
import type { VideoPollResult } from '../../../workflows/contract.ts';
import { VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import { raceAbort } from '../../core/time-limit.ts';
import type { Logger } from '../../observability/logger.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { VideoState, VideoVendor } from '../../vendors/video.ts';
import { getFileKey } from '../../vendors/video-address.ts';
import type { Video, VideoResult, Videos } from '../../videos/videos.ts';

interface VideoPollerDeps {
  readonly videos: Videos;
  readonly vendor: VideoVendor;
  readonly findProvider: (name: string) => MediaProvider | null;
  readonly clock: Clock;
  readonly logger: Logger;
}

export type VideoPoller = ReturnType<typeof createVideoPoller>;

/** Vendors delete operations and files after about two days. We give up on videos whose state we don't know by then. */
const vendorRetentionMs = 48 * 3_600_000;
const minWaitMs = 2_000;
const maxWaitMs = 10 * 60_000;

export function createVideoPoller({ videos, vendor, findProvider, clock, logger }: VideoPollerDeps) {
  // Polls in progress by call id. The number of concurrent polls is limited, so this stays small.
  const running = new Map<string, Promise<VideoState>>();

  async function pollOnce(video: Video, provider: MediaProvider): Promise<VideoState> {
    // Read the state again, because a concurrent poll may have settled the video in the meantime.
    const current = await videos.get(video.callId);
    if (current?.state === 'running' && current.polledAt !== video.polledAt) return { kind: 'running' };
    const state = await vendor.poll(provider, video.operation);
    if (state.kind === 'running') await videos.recordPoll(video.callId, clock.now());
    else await settle(video, toVideoResult(state));
    return state;
  }

  async function settle(video: Video, ending: VideoResult): Promise<void> {
    await videos.settle(video, ending, clock.now());
    logger.info({ call: video.callId, provider: video.provider, state: ending.kind }, 'video ended');
  }

  /**
   * Polls the vendor, or joins a poll of the same video that's already in progress. If the video has ended, it's
   * settled before this resolves. Throws VendorError and `budget_unavailable`.
   */
  function poll(video: Video, provider: MediaProvider): Promise<VideoState> {
    const pending = running.get(video.callId);
    if (pending) return pending;
    const polling = pollOnce(video, provider).finally(() => running.delete(video.callId));
    running.set(video.callId, polling);
    return polling;
  }

  return {
    poll,
    /**
     * Polls once, for the workflow. Returns `wait` while the video is running, and also if the vendor is unreachable or
     * doesn't know the operation.
     */
    async pollForWorkflow(callId: string, signal: AbortSignal): Promise<VideoPollResult> {
      const video = await videos.get(callId);
      if (video === null) return { kind: 'gone' };
      if (video.state !== 'running') return toSettled(video.state, video.failure);
      const state = await pollUnlessUnavailable(video, signal);
      if (state !== null && state.kind !== 'running') return toSettled(state.kind, state.kind === 'failed' ? state.reason : null);
      const ageMs = clock.now() - video.startedAt;
      if (ageMs < vendorRetentionMs) {
        const waitMs = Math.min(maxWaitMs, Math.max(minWaitMs, ageMs / 5));
        return { kind: 'wait', waitMs, unreachable: state === null, giveUpMs: vendorRetentionMs - ageMs };
      }
      await settle(video, { kind: 'unknown' });
      return toSettled('unknown', null);
    },
  };

  async function pollUnlessUnavailable(video: Video, signal: AbortSignal): Promise<VideoState | null> {
    const provider = findProvider(video.provider);
    if (provider === null) return null;
    try {
      return await raceAbort(poll(video, provider), signal);
    } catch (error) {
      if (!(error instanceof VendorError)) throw error;
      logger.debug({ call: video.callId, provider: video.provider, err: error }, 'video poll failed');
      return null;
    }
  }
}

/** The gRPC status codes, and codes of our own. */
const knownCodes =
  /^(?:FILTERED|NO_VIDEO|CODE_\d{1,3}|CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|UNAUTHENTICATED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS)$/;

/**
 * Replaces unknown codes with `FAILED`, because a vendor might quote the prompt in its code, and no text may end up in
 * workflow histories.
 */
function toSettled(state: VideoResult['kind'], code: string | null): VideoPollResult {
  const outcomes = { done: 'completed', failed: 'vendor_failed', unknown: 'unknown' } as const;
  return { kind: 'settled', outcome: outcomes[state], code: code === null || knownCodes.test(code) ? code : 'FAILED' };
}

function toVideoResult(state: Exclude<VideoState, { kind: 'running' }>): VideoResult {
  if (state.kind === 'failed') return { kind: 'failed', failure: state.reason };
  return { kind: 'done', uris: state.uris, fileKeys: state.uris.map(getFileKey) };
}
