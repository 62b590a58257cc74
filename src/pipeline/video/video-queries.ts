/**
 * Serves the state of video operations and the bytes of video files (docs/api/reference.md#video).
 *
 * Operations and files belong to the project that started the video, and other projects can't see them. If an operation
 * wasn't started through this gateway, we poll it at the default provider, as long as the project may use it and make
 * calls, and the key hasn't reached a ceiling. These requests aren't charged or recorded.
 */
import { type GatewayError, gatewayError, VendorError, vendorMembers } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import { noRoute } from '../../routing/no-route.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { VideoState, VideoVendor } from '../../vendors/video.ts';
import { getFileKey, getFileName, parseFileAddress, parseOperationName } from '../../vendors/video-address.ts';
import type { Video, Videos } from '../../videos/videos.ts';
import type { VideoPoller } from './video-poller.ts';

interface VideoQueriesDeps {
  readonly videos: Videos;
  readonly vendor: VideoVendor;
  readonly poller: VideoPoller;
  /** Returns all video providers, with the default one first. */
  readonly providers: () => readonly MediaProvider[];
  readonly clock: Clock;
}

interface ResolvedTarget<Value> {
  readonly provider: MediaProvider;
  readonly value: Value;
}

export interface VideoRequester {
  readonly projectId: string;
  /** The video providers that the project may use, or null if it may use all of them. */
  readonly providers: readonly string[] | null;
  /** False if the project may not make any calls. It can still get videos that it has already paid for. */
  readonly mayCall: boolean;
  /**
   * Throws if the key has reached a ceiling. We only check this for videos that weren't started through the gateway.
   */
  readonly checkCeilings: () => Promise<void>;
}

export interface OperationStatus {
  readonly operation: string;
  /** The URLs of the video files, or null while the operation is still running. */
  readonly uris: readonly string[] | null;
}

export interface FileResponse {
  readonly contentType: string;
  /** Null if the vendor didn't report the length. */
  readonly lengthBytes: number | null;
  /** Read this to the end, or call `return` on it to cancel the request to the vendor. Throws `upstream_failed`. */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export type VideoQueries = ReturnType<typeof createVideoQueries>;

/** How long we serve a polled state before we poll again. */
const pollMaxAgeMs = 3_000;

export function createVideoQueries({ videos, vendor, poller, providers, clock }: VideoQueriesDeps) {
  return {
    /**
     * Throws `forbidden_target`, `upstream_error`, `upstream_failed`, `video_failed`, `no_route`,
     * `subscription_required`, `budget_unavailable` or the error of `checkCeilings`.
     */
    async getOperation(requester: VideoRequester, text: string): Promise<OperationStatus> {
      const targets = resolveTargets((provider) => parseOperationName(text, provider.baseUrl));
      const { value: operation } = targets[0];
      const found = await videos.findByOperation(requester.projectId, operation);
      const video = ownVideo(found, requester);
      if (video?.state === 'done') return { operation, uris: video.uris };
      const { provider } = selectTarget(video, requester, targets);
      if (video === null) await requester.checkCeilings();
      if (found !== video) throw unknownToVendor(operation);
      const state = await getState(video, provider, operation).catch((error: unknown) => {
        throw asCallerError(error);
      });
      if (state.kind === 'failed') throw failedVideo(state);
      return { operation, uris: state.kind === 'done' ? state.uris : null };
    },

    /** Opens a video file. Throws the same errors as `getOperation`, apart from `video_failed`. */
    async openFile(requester: VideoRequester, address: string, signal: AbortSignal): Promise<FileResponse> {
      const targets = resolveTargets((provider) => parseFileAddress(address, provider.hosts));
      const key = getFileKey(address);
      const found = await videos.findByFile(requester.projectId, key);
      const video = ownVideo(found, requester);
      const { provider, value: url } = selectTarget(video, requester, targets);
      // We download files with the provider's API key, which gives access to more than just videos. So if the URL
      // doesn't belong to one of our videos, we only accept files on the provider's own host.
      if (video === null && (getFileName(url) === null || url.origin !== provider.hosts.origin)) throw unknownToVendor(key);
      if (video === null) await requester.checkCeilings();
      if (found !== video) throw unknownToVendor(key);
      const file = await vendor.open(provider, url, signal).catch((error: unknown) => {
        // `unreadable` means that the file redirects to another host, or redirects too often.
        if (error instanceof VendorError && error.kind === 'unreadable') throw gatewayError('forbidden_target', { cause: error });
        throw asCallerError(error);
      });
      return { ...file, chunks: deliver(file.chunks) };
    },
  };

  /**
   * Returns every provider that recognizes the operation name or URL, together with the parsed value. Throws if no
   * provider does.
   */
  function resolveTargets<Value>(
    read: (provider: MediaProvider) => Value | null,
  ): readonly [ResolvedTarget<Value>, ...ResolvedTarget<Value>[]] {
    const all = providers();
    if (all.length === 0) throw noProvider();
    const [first, ...others] = all.flatMap((provider) => {
      const value = read(provider);
      return value === null ? [] : [{ provider, value }];
    });
    if (first === undefined) throw gatewayError('forbidden_target');
    return [first, ...others];
  }

  function allowedProviders({ providers: names }: VideoRequester): readonly MediaProvider[] {
    return providers().filter(({ name }) => names?.includes(name) ?? true);
  }

  /**
   * Returns null if the project didn't start the video. A project can always see its own videos, even if it may no
   * longer use their provider or make calls. For all other videos, this throws if the project can't ask the vendor.
   *
   * If a video belongs to another project, we only refuse it after all other checks. Otherwise, the status would reveal
   * that the video exists.
   */
  function ownVideo(found: Video | null, requester: VideoRequester): Video | null {
    if (found?.projectId === requester.projectId) return found;
    if (allowedProviders(requester).length === 0) throw noProvider(requester);
    if (!requester.mayCall) throw gatewayError('subscription_required', { refusal: { reason: 'calls_off' } });
    return null;
  }

  /** Uses the project's default provider if the video wasn't started through this gateway. */
  function selectTarget<Value>(
    video: Video | null,
    requester: VideoRequester,
    targets: readonly ResolvedTarget<Value>[],
  ): ResolvedTarget<Value> {
    const providerName = video?.provider ?? allowedProviders(requester)[0]?.name;
    const target = targets.find(({ provider }) => provider.name === providerName);
    if (target) return target;
    throw providers().some(({ name }) => name === providerName) ? gatewayError('forbidden_target') : noProvider();
  }

  async function getState(video: Video | null, provider: MediaProvider, operation: string): Promise<VideoState> {
    if (video === null) return vendor.poll(provider, operation);
    if (video.state === 'failed') return getFailure(video, provider);
    const isFresh = video.polledAt !== null && clock.now() - video.polledAt < pollMaxAgeMs;
    return isFresh && video.state === 'running' ? { kind: 'running' } : poller.poll(video, provider);
  }

  /**
   * Polls a failed video again to get the vendor's message, which we don't store because it may quote the prompt. If
   * the poll fails, returns the stored reason.
   */
  async function getFailure({ operation, failure }: Video, provider: MediaProvider): Promise<VideoState> {
    const stored = { kind: 'failed', reason: failure ?? 'FAILED', message: '' } as const;
    const polled = await vendor.poll(provider, operation).catch(() => stored);
    return polled.kind === 'failed' ? polled : stored;
  }
}

async function* deliver(chunks: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    yield* chunks;
  } catch (error) {
    throw asCallerError(error);
  }
}

function noProvider(requester?: VideoRequester): GatewayError {
  const message = requester?.providers?.length === 0 ? 'no providers configured' : 'no video provider configured';
  return noRoute(message, "none of the project's providers serves videos");
}

/** Mimics the vendor's response to an unknown name. */
function unknownToVendor(name: string): GatewayError {
  const body = JSON.stringify({ error: { code: 404, message: `${name} is not found.`, status: 'NOT_FOUND' } });
  return gatewayError('upstream_error', { message: `the vendor responded with 404: ${body}`, members: { upstream_type: 'NOT_FOUND' } });
}

function failedVideo({ reason, message }: Extract<VideoState, { kind: 'failed' }>): GatewayError {
  return gatewayError('video_failed', { message: `the video failed: ${reason}${message === '' ? '' : `: ${message}`}` });
}

/** Video routes have no error code for responses that we can't parse, so we report those as `upstream_failed`. */
function asCallerError(error: unknown): unknown {
  if (!(error instanceof VendorError)) return error;
  const code = error.kind === 'status' ? 'upstream_error' : 'upstream_failed';
  return gatewayError(code, {
    message: error.message,
    cause: error,
    ...(error.kind === 'connect' && { status: 503 }),
    ...(error.kind === 'status' && { members: vendorMembers(error) }),
  });
}
