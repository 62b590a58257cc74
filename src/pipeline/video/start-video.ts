/**
 * Starts a video at one provider. The accepted job and the request to poll it are stored before the caller gets a
 * response. We charge the call by the requested length, and correct the charge when the video is finished
 * (video-poller.ts).
 */
import { retry } from '../../core/backoff.ts';
import type { MediaCall } from '../../core/call.ts';
import { connectionKey } from '../../core/candidate.ts';
import { gatewayError } from '../../core/errors.ts';
import { toBuffer } from '../../core/low-priority-thread.ts';
import { noTokens } from '../../core/pricing.ts';
import type { VideoRequestSummary } from '../../dialects/media/video.ts';
import type { Logger } from '../../observability/logger.ts';
import type { VideoVendor } from '../../vendors/video.ts';
import type { Videos } from '../../videos/videos.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaRouteDeps } from '../media/images.ts';

export interface VideoDeps extends Pick<MediaRouteDeps, 'planMedia' | 'findProvider' | 'mediaCalls'> {
  readonly vendor: VideoVendor;
  readonly videos: Videos;
  readonly logger: Logger;
}

export interface VideoStart {
  readonly operation: string;
  readonly model: string;
}

/** Throws a GatewayError. If the call reached its vendor, it has already been recorded when this throws. */
export type StartVideo = (
  call: MediaCall,
  project: ProjectContext,
  request: VideoRequestSummary,
  unsentSignal: AbortSignal | undefined,
) => Promise<VideoStart>;

/**
 * How long we wait between attempts to store the video. The vendor has already accepted the job, and a short database
 * outage shouldn't cost us the video.
 */
const retryDelaysMs = [100, 500, 1_500, 4_000];

export function createStartVideo({ planMedia, findProvider, mediaCalls, vendor, videos, logger }: VideoDeps): StartVideo {
  return async (call, project, request, unsentSignal) => {
    const candidate = planMedia({ ...call, requestedModel: request.model }, project, await mediaCalls.requiresPrice(call, project));
    const provider = findProvider(connectionKey(candidate));
    // Gemini is the only supported dialect for video.
    if (provider?.dialect !== 'gemini') throw gatewayError('bad_shape');
    if (typeof request.body === 'string') throw gatewayError('bad_request', { message: request.body });
    const body = toBuffer(request.body);
    await videos.assertWritable();
    const units = { seconds: (request.durationMs * request.samples) / 1_000 };
    const named = { ...call, requestedModel: request.model ?? candidate.id };
    const operation = await mediaCalls.execute(
      { call: named, project, texts: request.texts, unsentSignal, candidate, units, estimatedTokens: noTokens, maxOutputTokens: 0 },
      async (onRequestId) => {
        const started = await vendor.start(provider, candidate.model, body, onRequestId);
        const { perSecondNanos } = candidate.unitPrices;
        const video = {
          callId: call.id,
          projectId: call.caller.projectId,
          // An operation is only visible to the account that started it, so store the pool member and not just the
          // provider.
          provider: connectionKey(candidate),
          model: candidate.model,
          operation: started,
          secondNanos: perSecondNanos === null ? null : Number(perSecondNanos),
          durationMs: request.durationMs,
          samples: request.samples,
          startedAt: call.startedAt,
        };
        const onRetry = (err: unknown): void => logger.warn({ err, call: call.id }, 'failed to store video; retrying');
        await retry(() => videos.add(video), { delays: retryDelaysMs, onRetry });
        return { value: started, status: 200, units, tokens: null };
      },
    );
    return { operation, model: candidate.id };
  };
}
