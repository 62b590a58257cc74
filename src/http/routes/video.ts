import { gatewayError } from '../../core/errors.ts';
import { parseStringMember, scanJson } from '../../dialects/json/body-members.ts';
import { parseVideoRequest, videoBodyKeys } from '../../dialects/media/video.ts';
import type { StartVideo } from '../../pipeline/video/start-video.ts';
import type { OperationStatus, VideoQueries, VideoRequester } from '../../pipeline/video/video-queries.ts';
import { sendJson } from '../error-handler.ts';
import { detectAbandonedStream, onClientDisconnect, whenDisconnected } from '../half-close.ts';
import { sendFile, sendVideoStart } from '../send-response.ts';
import { createMediaHandler, type MediaHandler, type MediaRequestContext, toMediaCall } from './media-request.ts';
import type { CallRouteDeps } from './text.ts';

export interface VideoRouteDeps extends CallRouteDeps {
  readonly startVideo: StartVideo;
  readonly videoQueries: VideoQueries;
}

type VideoRoutes = Readonly<Record<'generations' | 'operations' | 'download', MediaHandler>>;

export function createVideoRoutes(deps: VideoRouteDeps): VideoRoutes {
  const { startVideo, videoQueries } = deps;

  return {
    generations: createMediaHandler(deps, 'video', async (context, response) => {
      const { body, project } = context;
      const videoRequest = parseVideoRequest(body, scanJson(body, videoBodyKeys));
      sendVideoStart(
        response,
        await startVideo(
          toMediaCall(context, { route: 'video', requestedModel: videoRequest.model ?? '', bodyBytes: context.body.length }),
          project.settings,
          videoRequest,
          project.settings.rules.input ? whenDisconnected(response) : undefined,
        ),
      );
    }),

    operations: createMediaHandler(deps, 'video', async (context, response) => {
      const name = parseName(context.body, 'operation');
      if (name === null) throw gatewayError('missing_operation');
      sendJson(response, 200, toOperationJson(await videoQueries.getOperation(requesterOf(context), name)));
    }),

    download: createMediaHandler(deps, 'video', async (context, response) => {
      const uri = parseName(context.body, 'uri');
      if (uri === null) throw gatewayError('missing_uri');
      const abort = new AbortController();
      onClientDisconnect(response, () => abort.abort());
      detectAbandonedStream(response, null);
      await sendFile(response, await videoQueries.openFile(requesterOf(context), uri, abort.signal));
    }),
  };
}

function requesterOf({ caller, project }: MediaRequestContext): VideoRequester {
  return { projectId: caller.projectId, providers: project.settings.providers };
}

/**
 * Parses the only field that video routes need from a body. Returns null if it's missing or empty. Throws
 * `forbidden_target` if it isn't a string, and `bad_json` if it's repeated.
 */
function parseName(body: Buffer, key: 'operation' | 'uri'): string | null {
  const { members, repeated } = scanJson(body, new Set([key]));
  if (repeated.has(key)) throw gatewayError('bad_json', { message: `${key}: duplicate key` });
  const member = members.get(key);
  if (member === undefined || member.kind === 'null') return null;
  const text = parseStringMember(body, member);
  if (text === null) throw gatewayError('forbidden_target');
  return text === '' ? null : text;
}

function toOperationJson({ operation, uris }: OperationStatus): unknown {
  if (uris === null) return { operation, done: false };
  return { operation, done: true, video_uri: uris[0], videos: uris.map((uri) => ({ video_uri: uri })) };
}
