/**
 * Starts a video at one provider. We store the accepted job and the request to poll it before the caller gets a
 * response. The call is charged by the requested length, and the result of the video corrects the charge
 * (video-poller.ts).
 */
import { retry } from '../../core/backoff.ts';
import type { MediaCall } from '../../core/call.ts';
import { connectionKey } from '../../core/candidate.ts';
import { gatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
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

/** A parsed request body (see dialects/media/video.ts). */
export interface VideoRequest {
  /** Null for the default model. */
  readonly model: string | null;
  readonly durationMs: number;
  readonly samples: number;
  /** Prompts, so that content rules can check them. */
  readonly texts: readonly string[];
  /** Returns the vendor's request body. Throws `bad_request`. */
  readonly writeBody: () => Buffer;
}

export interface VideoStart {
  readonly operation: string;
  readonly model: string;
}

/** Throws a GatewayError. If the call has reached its vendor, it has been recorded by then. */
export type StartVideo = (
  call: MediaCall,
  project: ProjectContext,
  request: VideoRequest,
  /** Aborts the check of the content rules. */
  unsentSignal: AbortSignal | undefined,
) => Promise<VideoStart>;

/** The vendor has already accepted the job, so we must not lose the video because of a short database outage. */
const retryDelaysMs = [100, 500, 1_500, 4_000];

export function createStartVideo({ planMedia, findProvider, mediaCalls, vendor, videos, logger }: VideoDeps): StartVideo {
  return async (call, project, request, unsentSignal) => {
    const candidate = planMedia({ ...call, requestedModel: request.model }, project, await mediaCalls.requiresPrice(call, project));
    const provider = findProvider(connectionKey(candidate));
    // This is the only format of videos that we support.
    if (provider?.dialect !== 'gemini') throw gatewayError('bad_shape');
    const body = request.writeBody();
    await videos.assertWritable();
    const units = { seconds: (request.durationMs * request.samples) / 1_000 };
    const named = { ...call, requestedModel: request.model ?? candidate.id };
    const operation = await mediaCalls.execute(
      { call: named, project, texts: request.texts, unsentSignal, candidate, units, estimatedTokens: noTokens, maxOutputTokens: 0 },
      async () => {
        const started = await vendor.start(provider, candidate.model, body);
        const { perSecondNanos } = candidate.unitPrices;
        const video = {
          callId: call.id,
          projectId: call.caller.projectId,
          // Only the member that made a video can find it again.
          provider: connectionKey(candidate),
          model: candidate.model,
          operation: started,
          secondNanos: perSecondNanos === null ? null : Number(perSecondNanos),
          durationMs: request.durationMs,
          samples: request.samples,
          startedAt: call.startedAt,
        };
        const onRetry = (err: unknown): void => logger.warn({ err, call: call.id }, 'storing video failed, retrying');
        await retry(() => videos.add(video), { delays: retryDelaysMs, onRetry });
        return { value: started, status: 200, units, tokens: null };
      },
    );
    return { operation, model: candidate.id };
  };
}
