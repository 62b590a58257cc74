/** The image and speech routes (specification 4.6): from a request to a call of one provider, and its result back. */
import type { MediaCall } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { keysOfMediaBodies, readImageRequest, readSpeechRequest } from '../../dialects/media/image-speech.ts';
import { startCancellation } from '../../pipeline/call/cancellation.ts';
import type { GenerateImages } from '../../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../../pipeline/media/speech.ts';
import { scanJson } from '../body.ts';
import { sendImages, sendMedia } from '../send-response.ts';
import type { MediaHandler, MediaRequestDeps, ReceivedMedia } from './media-request.ts';
import { createMediaHandler, mediaCallOf, onLeaving } from './media-request.ts';

export interface MediaRouteDeps extends MediaRequestDeps {
  readonly answerImages: GenerateImages;
  readonly answerSpeech: SynthesizeSpeech;
}

export function createMediaRoutes(deps: MediaRouteDeps): { readonly images: MediaHandler; readonly speech: MediaHandler } {
  const { answerImages, answerSpeech, clock } = deps;

  return {
    images: createMediaHandler(deps, async (received, response) => {
      const { call, fields } = readCall(received, 'images');
      sendImages(response, await answerImages(call, received.project.settings, fields));
    }),
    speech: createMediaHandler(deps, async (received, response) => {
      const { call, fields } = readCall(received, 'speech');
      const cancellation = startCancellation({ stream: true, deadlineAt: null, clock });
      onLeaving(response, cancellation.clientDisconnected);
      await sendMedia(response, await answerSpeech(call, received.project.settings, { fields, cancellation }));
    }),
  };
}

function readCall(received: ReceivedMedia, route: 'images' | 'speech'): { call: MediaCall; fields: MediaFields } {
  const { body } = received;
  const read = route === 'images' ? readImageRequest : readSpeechRequest;
  const { model, fields } = read(body, scanJson(body, keysOfMediaBodies));
  // No model has such a name; it would only be carried through records and logs, and half a character has no place in an address.
  if (model.length > longestModel || !model.isWellFormed()) throw gatewayError('no_route');
  return { call: mediaCallOf(received, route, model), fields };
}

/** As the catalog bounds the ids of models. */
const longestModel = 300;
