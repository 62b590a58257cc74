/**
 * What callers learn of videos that were started: the state of an operation, and the bytes of a file (specification 4.6, shapes 11 and 21).
 *
 * Operations and files belong to the project that started the video; another project's do not exist. One that was not started here is asked of
 * the default provider, where the project may use it. Nothing here is charged or recorded.
 */
import type { GatewayError } from '../../core/errors.ts';
import { gatewayError, VendorError } from '../../core/errors.ts';
import type { Clock } from '../../core/time.ts';
import type { MediaProvider } from '../../vendors/media.ts';
import type { VideoState, VideoVendor } from '../../vendors/video.ts';
import { getFileKey, getFileName, parseFileAddress, parseOperationName } from '../../vendors/video-address.ts';
import type { Video, Videos } from '../../videos/videos.ts';
import type { VideoPoller } from './video-poller.ts';

export interface VideoQueriesDeps {
  readonly videos: Videos;
  readonly vendor: VideoVendor;
  readonly poller: VideoPoller;
  /** All providers of videos that can be asked, the default one first. */
  readonly providers: () => readonly MediaProvider[];
  readonly clock: Clock;
}

/** The project that asks. */
export interface VideoRequester {
  readonly projectId: string;
  /** Those that it may use; null: all. */
  readonly providers: readonly string[] | null;
}

export interface OperationStatus {
  readonly operation: string;
  /** Null while it runs. */
  readonly uris: readonly string[] | null;
}

/** A file on its way. */
export interface FileResponse {
  readonly contentType: string;
  /** Null: the vendor did not tell. */
  readonly lengthBytes: number | null;
  /** Must be read to its end or returned: that ends the vendor's request. Throws `upstream_failed`. */
  readonly chunks: AsyncGenerator<Buffer, void>;
}

export interface VideoQueries {
  /** Throws `forbidden_target`, `upstream_error`, `upstream_failed`, `video_failed`, `no_route`, `budget_unavailable`. */
  getOperation(requester: VideoRequester, text: string): Promise<OperationStatus>;
  /** Throws the same but for `video_failed`. */
  openFile(requester: VideoRequester, address: string, signal: AbortSignal): Promise<FileResponse>;
}

/** For so long the vendor's last answer is what is known. */
const pollMaxAgeMs = 3_000;

export function createVideoQueries({ videos, vendor, poller, providers, clock }: VideoQueriesDeps): VideoQueries {
  return {
    async getOperation(requester, text) {
      const targets = resolveTargets((provider) => parseOperationName(text, provider.baseUrl));
      const { value: operation } = targets[0];
      const video = requireVisible(await videos.findByOperation(requester.projectId, operation), requester, operation);
      if (video?.state === 'done') return { operation, uris: video.uris };
      const { provider } = selectTarget(video, requester, targets);
      const state = await getState(video, provider, operation).catch((error: unknown) => {
        throw asCallerError(error);
      });
      if (state.kind === 'failed') throw failedVideo(state);
      return { operation, uris: state.kind === 'done' ? state.uris : null };
    },

    async openFile(requester, address, signal) {
      const targets = resolveTargets((provider) => parseFileAddress(address, provider.hosts));
      const key = getFileKey(address);
      const video = requireVisible(await videos.findByFile(requester.projectId, key), requester, key);
      const { provider, value: url } = selectTarget(video, requester, targets);
      // The provider's key opens more at its host than files; to what no project was given only addresses of files are asked.
      if (video === null && (getFileName(url) === null || url.origin !== provider.hosts.origin)) throw unknownToVendor(key);
      const file = await vendor.open(provider, url, signal).catch((error: unknown) => {
        // It led to another host, or to no end.
        if (error instanceof VendorError && error.kind === 'unreadable') throw gatewayError('forbidden_target', { cause: error });
        throw asCallerError(error);
      });
      return { ...file, chunks: deliver(file.chunks) };
    },
  };

  /** The providers at which what the caller named can be, with how each of them reads it; at least one. */
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

  /** Those that the project may use, the default one first. */
  function allowedProviders({ providers: names }: VideoRequester): readonly MediaProvider[] {
    return providers().filter(({ name }) => names?.includes(name) ?? true);
  }

  /** Null: `name` is of no video that was started here. A project keeps its own videos where it may not use the provider any more. */
  function requireVisible(video: Video | null, requester: VideoRequester, name: string): Video | null {
    if (video?.projectId === requester.projectId) return video;
    if (allowedProviders(requester).length === 0) throw noProvider();
    if (video !== null) throw unknownToVendor(name);
    return null;
  }

  /** The row's, else the project's default one. */
  function selectTarget<Value>(
    video: Video | null,
    requester: VideoRequester,
    targets: readonly ResolvedTarget<Value>[],
  ): ResolvedTarget<Value> {
    const providerName = video?.provider ?? allowedProviders(requester)[0]?.name;
    const found = targets.find(({ provider }) => provider.name === providerName);
    if (found) return found;
    throw providers().some(({ name }) => name === providerName) ? gatewayError('forbidden_target') : noProvider();
  }

  async function getState(video: Video | null, provider: MediaProvider, operation: string): Promise<VideoState> {
    if (video === null) return vendor.poll(provider, operation);
    if (video.state === 'failed') return getFailure(video, provider);
    const isFresh = video.polledAt !== null && clock.now() - video.polledAt < pollMaxAgeMs;
    return isFresh && video.state === 'running' ? { kind: 'running' } : poller.poll(video, provider);
  }

  /** The vendor's words are not stored, since they may quote the prompt: they are asked for again, and the class of the failure stands in for them. */
  async function getFailure({ operation, failure }: Video, provider: MediaProvider): Promise<VideoState> {
    const known = { kind: 'failed', reason: failure ?? 'FAILED', message: '' } as const;
    const polled = await vendor.poll(provider, operation).catch(() => known); // What is known is enough.
    return polled.kind === 'failed' ? polled : known;
  }
}

async function* deliver(chunks: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    yield* chunks;
  } catch (error) {
    throw asCallerError(error);
  }
}

interface ResolvedTarget<Value> {
  readonly provider: MediaProvider;
  readonly value: Value;
}

function noProvider(): GatewayError {
  return gatewayError('no_route', { message: 'no video provider configured' });
}

/** As the vendor would say it. */
function unknownToVendor(name: string): GatewayError {
  const body = JSON.stringify({ error: { code: 404, message: `${name} is not found.`, status: 'NOT_FOUND' } });
  return gatewayError('upstream_error', { message: `the vendor answered 404: ${body}` });
}

function failedVideo({ reason, message }: Extract<VideoState, { kind: 'failed' }>): GatewayError {
  return gatewayError('video_failed', { message: `the video failed: ${reason}${message === '' ? '' : `: ${message}`}` });
}

/** Neither route has a code for an answer that cannot be read: as little came of it as of none. */
function asCallerError(error: unknown): unknown {
  if (!(error instanceof VendorError)) return error;
  const code = error.kind === 'status' ? 'upstream_error' : 'upstream_failed';
  return gatewayError(code, { message: error.message, cause: error, ...(error.kind === 'connect' && { status: 503 }) });
}
