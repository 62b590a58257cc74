/** The image and speech routes (docs/api/reference.md#images): converts a request to a call of one provider, and sends its result. */
import type { MediaCall } from '../../core/call.ts';
import { type MediaFields, mediaBodyKeys, parseImageRequest, parseSpeechRequest } from '../../dialects/media/image-speech.ts';
import { startCancellation } from '../../pipeline/call/cancellation.ts';
import type { GenerateImages } from '../../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../../pipeline/media/speech.ts';
import { noRoute, quoteName } from '../../routing/no-route.ts';
import { scanJson } from '../body.ts';
import { detectAbandonedStream, onClientDisconnect } from '../half-close.ts';
import { sendImages, sendMedia } from '../send-response.ts';
import { createMediaHandler, type MediaHandler, type MediaRequestContext, toMediaCall } from './media-request.ts';
import { type CallRouteDeps, maxModelLength, modelTooLong } from './text.ts';

export interface MediaRouteDeps extends CallRouteDeps {
  readonly generateImages: GenerateImages;
  readonly synthesizeSpeech: SynthesizeSpeech;
}

export function createMediaRoutes(deps: MediaRouteDeps): { readonly images: MediaHandler; readonly speech: MediaHandler } {
  const { generateImages, synthesizeSpeech, clock } = deps;

  return {
    images: createMediaHandler(deps, async (context, response) => {
      const { call, fields } = parseCall(context, 'images');
      sendImages(response, await generateImages(call, context.project.settings, fields));
    }),
    speech: createMediaHandler(deps, async (context, response) => {
      const { call, fields } = parseCall(context, 'speech');
      const cancellation = startCancellation({ stream: true, deadlineAt: null, clock });
      onClientDisconnect(response, cancellation.clientDisconnected);
      detectAbandonedStream(response, null);
      await sendMedia(response, await synthesizeSpeech(call, context.project.settings, { fields, cancellation }));
    }),
  };
}

function parseCall(received: MediaRequestContext, route: 'images' | 'speech'): { call: MediaCall; fields: MediaFields } {
  const { body } = received;
  const read = route === 'images' ? parseImageRequest : parseSpeechRequest;
  const { model, fields } = read(body, scanJson(body, mediaBodyKeys));
  if (model.length > maxModelLength) throw modelTooLong(model);
  if (!model.isWellFormed()) throw noRoute(undefined, `${quoteName(model)} has a lone surrogate, which cannot be part of a URL`);
  return { call: toMediaCall(received, route, model), fields };
}
