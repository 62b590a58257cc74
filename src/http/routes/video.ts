/** The three video routes (specification 4.6, shapes 11): start a video, ask how far it is, fetch its file. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Caller, MediaCall } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import { readText as readMemberText } from '../../dialects/members.ts';
import { keysOfVideoBodies, readVideoRequest } from '../../dialects/video-requests.ts';
import type { Logger } from '../../observability/logger.ts';
import type { StartVideo } from '../../pipeline/video.ts';
import type { OperationAnswer, VideoAnswers, VideoAsker } from '../../pipeline/video-answers.ts';
import type { FindCaller } from '../authenticate.ts';
import { readKey } from '../authenticate.ts';
import { asPlainText, checkContentType, readBody, scanJson } from '../body.ts';
import { sendError, sendJson } from '../error-handler.ts';
import { watchHalfClosed } from '../half-open.ts';
import { readCorrelation, readText } from '../headers.ts';
import { sendFile, sendVideoStart } from '../reply.ts';
import type { RoutedProject } from './text.ts';

export interface VideoRouteDeps {
  readonly findCaller: FindCaller;
  readonly findProject: (projectId: string) => RoutedProject | Promise<RoutedProject>;
  readonly startVideo: StartVideo;
  readonly answers: VideoAnswers;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A request whose caller and body are known. */
interface Received {
  readonly id: string;
  readonly startedAt: number;
  readonly caller: Caller;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export function createVideoRoutes({ findCaller, findProject, startVideo, answers, clock, logger }: VideoRouteDeps) {
  /** What all three have in common: the order of the refusals, and the form of errors. */
  const videoRoute =
    (answer: (received: Received, response: ServerResponse) => Promise<void>) =>
    async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const startedAt = clock.now();
      const id = newId(startedAt);
      response.setHeader('x-gateway-call-id', id);
      try {
        const caller = await findCaller(readKey(request.headers, false));
        checkContentType(request);
        await answer({ id, startedAt, caller, headers: request.headers, body: await readBody(request) }, response);
      } catch (error) {
        sendError(response, asPlainText(error), 'chat', logger);
      }
    };

  const askerOf = async ({ projectId }: Caller): Promise<VideoAsker> => {
    const { settings } = await findProject(projectId);
    return { projectId, providers: settings.providers };
  };

  return {
    generations: videoRoute(async ({ id, startedAt, caller, headers, body }, response) => {
      const { slug, settings } = await findProject(caller.projectId);
      const source = readText(headers, 'x-gateway-source');
      const wish = readVideoRequest(body, scanJson(body, keysOfVideoBodies));
      const call: MediaCall = {
        id,
        startedAt,
        route: 'video',
        caller,
        source: source ?? slug,
        sourceGiven: source !== null,
        modelAsked: wish.model ?? '',
        bodyBytes: body.length,
        correlation: readCorrelation(headers),
      };
      sendVideoStart(response, await startVideo(call, settings, wish));
    }),

    operations: videoRoute(async ({ caller, body }, response) => {
      const name = readName(body, 'operation');
      if (name === null) throw gatewayError('missing_operation');
      sendJson(response, 200, describeOperation(await answers.operation(await askerOf(caller), name)));
    }),

    download: videoRoute(async ({ caller, body }, response) => {
      const address = readName(body, 'uri');
      if (address === null) throw gatewayError('missing_uri');
      const leaving = new AbortController();
      response.once('close', () => {
        // A file that was sent whole closes too; its vendor's connection can be used again.
        if (!response.writableFinished) leaving.abort();
      });
      watchHalfClosed(response, null);
      await sendFile(response, await answers.file(await askerOf(caller), address, leaving.signal));
    }),
  };
}

/** The one member that is read of the body; null when it is not there. A value that is no text is a malformed address. */
function readName(body: Buffer, key: 'operation' | 'uri'): string | null {
  const { members, repeated } = scanJson(body, new Set([key]));
  if (repeated.has(key)) throw gatewayError('bad_json', { message: `${key}: stands more than once` });
  const member = members.get(key);
  if (member === undefined || member.kind === 'null') return null;
  const text = readMemberText(body, member);
  if (text === null) throw gatewayError('forbidden_target');
  return text === '' ? null : text;
}

/** Shapes 11. */
function describeOperation({ operation, uris }: OperationAnswer): unknown {
  if (uris === null) return { operation, done: false };
  return { operation, done: true, video_uri: uris[0], videos: uris.map((uri) => ({ video_uri: uri })) };
}
