/**
 * The story of a call for a video: one provider is asked, and what it accepted is written down, with the wish that somebody polls it, before
 * the caller learns of it. Charged at the start by what was asked for; what became of the video corrects that (video-looks.ts).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MediaCall, MediaCandidate } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { noTokens } from '../../core/pricing.ts';
import type { Logger } from '../../observability/logger.ts';
import type { MediaPlanRequest } from '../../routing/media-plan.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { VideoVendor } from '../../vendors/video.ts';
import type { NewVideo, Videos } from '../../videos/videos.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaCalls } from '../media/handle-media-call.ts';

export interface VideoDeps {
  /** The one model that may be asked. Throws `no_route`. */
  readonly plan: (
    call: MediaCall,
    project: ProjectContext,
    asked: Pick<MediaPlanRequest, 'modelAsked' | 'requiresPrice'>,
  ) => MediaCandidate;
  readonly findProvider: (name: string) => MediaProvider | undefined;
  readonly calls: MediaCalls;
  readonly vendor: VideoVendor;
  readonly videos: Videos;
  readonly logger: Logger;
}

/** What a caller wants of a video (dialects/video-requests.ts). */
export interface VideoRequest {
  /** Null: the default one. */
  readonly model: string | null;
  readonly durationMs: number;
  readonly samples: number;
  /** Content rules look at them. */
  readonly texts: readonly string[];
  /** What the vendor is sent. Throws `bad_request`. */
  readonly writeBody: () => Buffer;
}

export interface VideoStart {
  readonly operation: string;
  /** `<provider>/<model>`. */
  readonly model: string;
}

/** Throws GatewayError; the call is recorded then, if the vendor was asked. */
export type StartVideo = (call: MediaCall, project: ProjectContext, request: VideoRequest) => Promise<VideoStart>;

/** The vendor has the order already: a database that is away for a moment must not lose the video. */
const retryDelaysMs = [100, 500, 1_500, 4_000];

export function createStartVideo({ plan, findProvider, calls, vendor, videos, logger }: VideoDeps): StartVideo {
  return async (call, project, request) => {
    const candidate = plan(call, project, { modelAsked: request.model, requiresPrice: await calls.requiresPrice(call, project) });
    const provider = findProvider(candidate.provider);
    // The Gemini form is the only one of videos.
    if (provider?.dialect !== 'gemini') throw gatewayError('bad_shape');
    const body = request.writeBody();
    await videos.assertWritable();
    const units = { seconds: (request.durationMs * request.samples) / 1_000 };
    const named = { ...call, modelAsked: request.model ?? candidate.id };
    const operation = await calls.execute(
      { call: named, project, texts: request.texts, candidate, units, estimatedTokens: noTokens, maxOutputTokens: 0 },
      async () => {
        const started = await vendor.start(provider, candidate.model, body);
        await addWithRetry({ ...toNewVideo(call, candidate, request), operation: started });
        return { value: started, status: 200, units, tokens: null };
      },
    );
    return { operation, model: candidate.id };
  };

  async function addWithRetry(video: NewVideo): Promise<void> {
    for (const delayMs of retryDelaysMs) {
      try {
        return await videos.add(video);
      } catch (error) {
        logger.warn({ error, call: video.callId }, 'a video that was started cannot be written down yet');
        await sleep(delayMs);
      }
    }
    await videos.add(video);
  }
}

function toNewVideo({ id, startedAt, caller }: MediaCall, { provider, model, unitPrices }: MediaCandidate, request: VideoRequest) {
  const { perSecondNanos } = unitPrices;
  return {
    callId: id,
    projectId: caller.projectId,
    provider,
    model,
    secondNanos: perSecondNanos === null ? null : Number(perSecondNanos),
    durationMs: request.durationMs,
    samples: request.samples,
    startedAt,
  };
}
