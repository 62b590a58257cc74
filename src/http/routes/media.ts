/** The image and speech routes (docs/api/reference.md#images): converts a request to a call of one provider, and sends its result. */
import type { MediaCall } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { mediaBodyKeys, parseImageRequest, parseSpeechRequest } from '../../dialects/media/image-speech.ts';
import { startCancellation } from '../../pipeline/call/cancellation.ts';
import type { GenerateImages } from '../../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../../pipeline/media/speech.ts';
import { scanJson } from '../body.ts';
import { sendImages, sendMedia } from '../send-response.ts';
import type { MediaHandler, MediaRequestContext, MediaRequestDeps } from './media-request.ts';
import { createMediaHandler, onClientDisconnect, toMediaCall } from './media-request.ts';

export interface MediaRouteDeps extends MediaRequestDeps {
  readonly answerImages: GenerateImages;
  readonly answerSpeech: SynthesizeSpeech;
}

export function createMediaRoutes(deps: MediaRouteDeps): { readonly images: MediaHandler; readonly speech: MediaHandler } {
  const { answerImages, answerSpeech, clock } = deps;

  return {
    images: createMediaHandler(deps, async (context, response) => {
      const { call, fields } = parseCall(context, 'images');
      sendImages(response, await answerImages(call, context.project.settings, fields));
    }),
    speech: createMediaHandler(deps, async (context, response) => {
      const { call, fields } = parseCall(context, 'speech');
      const cancellation = startCancellation({ stream: true, deadlineAt: null, clock });
      onClientDisconnect(response, cancellation.clientDisconnected);
      await sendMedia(response, await answerSpeech(call, context.project.settings, { fields, cancellation }));
    }),
  };
}

function parseCall(received: MediaRequestContext, route: 'images' | 'speech'): { call: MediaCall; fields: MediaFields } {
  const { body } = received;
  const read = route === 'images' ? parseImageRequest : parseSpeechRequest;
  const { model, fields } = read(body, scanJson(body, mediaBodyKeys));
  // No model has so long a name; rejecting it keeps it out of records and logs. Lone surrogates cannot be part of a URL.
  if (model.length > maxModelLength || !model.isWellFormed()) throw gatewayError('no_route');
  return { call: toMediaCall(received, route, model), fields };
}

/** The catalog's limit for model ids. */
const maxModelLength = 300;
