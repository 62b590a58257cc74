import { gatewayError } from '../../core/errors.ts';
import type { CheckCeilings } from '../../pipeline/call/check-ceilings.ts';
import type { StartVideo } from '../../pipeline/video/start-video.ts';
import type { OperationStatus, VideoQueries, VideoRequester } from '../../pipeline/video/video-queries.ts';
import { createBodyParser } from '../body-parser.ts';
import { sendJson } from '../error-handler.ts';
import { detectAbandonedStream, onClientDisconnect, whenDisconnected } from '../half-close.ts';
import { parseVideoBody, parseVideoName } from '../media-bodies.ts';
import { sendFile, sendVideoStart } from '../send-response.ts';
import { createMediaHandler, type MediaHandler, type MediaRequestContext, toMediaCall } from './media-request.ts';
import type { CallRouteDeps } from './text.ts';

export interface VideoRouteDeps extends CallRouteDeps {
  readonly startVideo: StartVideo;
  readonly videoQueries: VideoQueries;
  readonly checkCeilings: CheckCeilings;
}

type VideoRoutes = Readonly<Record<'generations' | 'operations' | 'download', MediaHandler>>;

export function createVideoRoutes(deps: VideoRouteDeps): VideoRoutes {
  const { startVideo, videoQueries, checkCeilings } = deps;

  const requesterOf = (context: MediaRequestContext): VideoRequester => {
    const { caller, project, bodyBytes } = context;
    const call = toMediaCall(context, { route: 'video', requestedModel: '', bodyBytes });
    const { providers, mayCall } = project.settings;
    return { projectId: caller.projectId, providers, mayCall, checkCeilings: () => checkCeilings(call, project.settings) };
  };

  return {
    generations: createMediaHandler(deps, 'video', async (context, response) => {
      const { body, bodyBytes, caller, project } = context;
      const videoRequest = await parseRequest(caller.projectId, body, {});
      sendVideoStart(
        response,
        await startVideo(
          toMediaCall(context, { route: 'video', requestedModel: videoRequest.model ?? '', bodyBytes }),
          project.settings,
          videoRequest,
          project.settings.rules.input ? whenDisconnected(response) : undefined,
        ),
      );
    }),

    operations: createMediaHandler(deps, 'video', async (context, response) => {
      const name = await nameIn(context, 'operation');
      if (name === null) throw gatewayError('missing_operation');
      sendJson(response, 200, toOperationJson(await videoQueries.getOperation(requesterOf(context), name)));
    }),

    download: createMediaHandler(deps, 'video', async (context, response) => {
      const uri = await nameIn(context, 'uri');
      if (uri === null) throw gatewayError('missing_uri');
      const abort = new AbortController();
      onClientDisconnect(response, () => abort.abort());
      detectAbandonedStream(response, null);
      await sendFile(response, await videoQueries.openFile(requesterOf(context), uri, abort.signal));
    }),
  };
}

const module = new URL('../media-bodies.ts', import.meta.url).href;
const parseRequest = createBodyParser(module, parseVideoBody);
const parseName = createBodyParser(module, parseVideoName);

async function nameIn({ body, caller }: MediaRequestContext, key: 'operation' | 'uri'): Promise<string | null> {
  const { name } = await parseName(caller.projectId, body, { key });
  return name;
}

function toOperationJson({ operation, uris }: OperationStatus): unknown {
  if (uris === null) return { operation, done: false };
  return { operation, done: true, video_uri: uris[0], videos: uris.map((uri) => ({ video_uri: uri })) };
}
