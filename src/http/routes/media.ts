/** The image and speech routes (specification 4.6): from a request to a call of one provider, and its result back. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { MediaCall } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { newId } from '../../core/ids.ts';
import type { Clock } from '../../core/time.ts';
import type { MediaFields, MediaRequestFacts } from '../../dialects/media-requests.ts';
import { keysOfMediaBodies, readImageRequest, readSpeechRequest } from '../../dialects/media-requests.ts';
import type { Logger } from '../../observability/logger.ts';
import { startControl } from '../../pipeline/control.ts';
import type { AnswerImages } from '../../pipeline/images.ts';
import type { AnswerSpeech } from '../../pipeline/speech.ts';
import type { FindCaller } from '../authenticate.ts';
import { readKey } from '../authenticate.ts';
import { asPlainText, checkContentType, readBody, scanJson } from '../body.ts';
import { sendError } from '../error-handler.ts';
import { watchHalfClosed } from '../half-open.ts';
import { readCorrelation, readText } from '../headers.ts';
import { sendImages, sendMedia } from '../reply.ts';
import type { RoutedProject } from './text.ts';

export interface MediaRouteDeps {
  readonly findCaller: FindCaller;
  readonly findProject: (projectId: string) => RoutedProject | Promise<RoutedProject>;
  readonly answerImages: AnswerImages;
  readonly answerSpeech: AnswerSpeech;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What a media route has in hand when its body is read. */
interface ReceivedMedia {
  readonly call: MediaCall;
  readonly project: RoutedProject['settings'];
  readonly fields: MediaFields;
}

export function createMediaRoutes(deps: MediaRouteDeps) {
  const { answerImages, answerSpeech, clock } = deps;

  return {
    images: createMediaRoute('images', deps, readImageRequest, async (response, { call, project, fields }) => {
      sendImages(response, await answerImages(call, project, fields));
    }),
    speech: createMediaRoute('speech', deps, readSpeechRequest, async (response, { call, project, fields }) => {
      const control = startControl({ stream: true, deadlineAt: null, clock });
      response.once('close', () => {
        // An answer that was sent whole closes too; a hang-up then would end the vendor's connection, which can be used again.
        if (!response.writableFinished) control.hangUp();
      });
      watchHalfClosed(response, null);
      await sendMedia(response, await answerSpeech(call, project, { fields, control }));
    }),
  };
}

function createMediaRoute(
  route: 'images' | 'speech',
  { findCaller, findProject, clock, logger }: MediaRouteDeps,
  read: (body: Buffer, spans: ReturnType<typeof scanJson>) => MediaRequestFacts,
  answer: (response: ServerResponse, received: ReceivedMedia) => Promise<void>,
) {
  return async function mediaRoute(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = clock.now();
    const id = newId(startedAt);
    response.setHeader('x-gateway-call-id', id);
    try {
      const caller = await findCaller(readKey(request.headers, false));
      checkContentType(request);
      const body = await readBody(request);
      const { slug, settings } = await findProject(caller.projectId);
      const source = readText(request.headers, 'x-gateway-source');
      const { model, fields } = read(body, scanJson(body, keysOfMediaBodies));
      // No model has such a name; it would only be carried through records and logs, and half a character has no place in an address.
      if (model.length > longestModel || !model.isWellFormed()) throw gatewayError('no_route');
      const call: MediaCall = {
        id,
        startedAt,
        route,
        caller,
        source: source ?? slug,
        sourceGiven: source !== null,
        modelAsked: model,
        bodyBytes: body.length,
        correlation: readCorrelation(request.headers),
      };
      await answer(response, { call, project: settings, fields });
    } catch (error) {
      sendError(response, asPlainText(error), 'chat', logger);
    }
  };
}

/** As the catalog bounds the ids of models. */
const longestModel = 300;
