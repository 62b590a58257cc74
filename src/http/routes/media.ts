/**
 * The image, speech and transcription routes (docs/api/reference.md#media). Each request becomes a call to a single
 * provider.
 */
import type { ServerResponse } from 'node:http';
import type { MediaCall } from '../../core/call.ts';
import { assertImageModel, type MediaRequestSummary, parseSimpleText, warnOfImageFormat } from '../../dialects/media/image-speech.ts';
import { type UploadKind, uploadKinds } from '../../dialects/media/uploads.ts';
import { type CallCancellation, startCancellation } from '../../pipeline/call/cancellation.ts';
import type { GenerateImages } from '../../pipeline/media/images.ts';
import type { SynthesizeSpeech } from '../../pipeline/media/speech.ts';
import type { RelayUpload } from '../../pipeline/media/uploads.ts';
import { noRoute, quoteName } from '../../routing/no-route.ts';
import { createBodyParser } from '../body-parser.ts';
import { detectAbandonedStream, onClientDisconnect, whenDisconnected } from '../half-close.ts';
import { parseMediaBody } from '../media-bodies.ts';
import { sendImages, sendMedia } from '../send-response.ts';
import { readUpload } from '../upload.ts';
import { createMediaHandler, createUploadHandler, type MediaHandler, type MediaRequestContext, toMediaCall } from './media-request.ts';
import { type CallRouteDeps, maxModelLength, modelTooLong } from './text.ts';

export interface MediaRouteDeps extends CallRouteDeps {
  readonly relayUpload: RelayUpload;
  readonly generateImages: GenerateImages;
  readonly synthesizeSpeech: SynthesizeSpeech;
}

type MediaRouteName = 'images' | 'speech' | 'imageEdits' | 'transcriptions' | 'translations';

export function createMediaRoutes(deps: MediaRouteDeps): Readonly<Record<MediaRouteName, MediaHandler>> {
  const { generateImages, synthesizeSpeech, relayUpload, clock } = deps;

  const startStream = (response: ServerResponse): CallCancellation => {
    const cancellation = startCancellation({ stream: true, deadlineAt: null, clock });
    onClientDisconnect(response, cancellation.clientDisconnected);
    detectAbandonedStream(response, null);
    return cancellation;
  };

  const relay = (kind: UploadKind): MediaHandler =>
    createUploadHandler(deps, kind.route, async (source, request, response) => {
      const { settings } = source.project;
      const texts: string[] = [];
      let { caller } = source;
      const options = {
        boundary: source.boundary,
        fieldNames: kind.fieldNames,
        refusedNames: kind.refusedNames,
        collected: settings.rules.input ? { fileNames: kind.fileNames, texts } : null,
        memory: deps.bodyMemory.of(source.caller.projectId, source.caller.quotaKeyId),
        authorizeAgain: async () => {
          caller = await source.findCaller();
        },
      };
      const { model, fields, countImages, bodyBytes, readAll, bodyFor, release } = await readUpload(request, options);
      try {
        assertModel(model);
        if (kind.route === 'images') assertImageModel(model);
        const call = toMediaCall({ ...source, caller }, { route: kind.route, requestedModel: model, bodyBytes });
        const cancellation = startStream(response);
        const stream = await relayUpload(call, settings, { kind, fields, texts, countImages, readAll, bodyFor, cancellation });
        if (kind.route === 'images') setFormatWarning(response, fields.get('response_format') ?? null);
        await sendMedia(response, stream);
      } finally {
        release();
      }
    });

  return {
    images: createMediaHandler(deps, 'images', async (context, response) => {
      const { call, parsed } = await parseCall(context, 'images');
      const { settings } = context.project;
      const images = await generateImages(call, settings, parsed, settings.rules.input ? whenDisconnected(response) : undefined);
      const { response_format: format } = parsed.fields;
      setFormatWarning(response, format === undefined ? null : (parseSimpleText(format) ?? ''));
      sendImages(response, images);
    }),
    speech: createMediaHandler(deps, 'speech', async (context, response) => {
      const { call, parsed } = await parseCall(context, 'speech');
      const cancellation = startStream(response);
      await sendMedia(response, await synthesizeSpeech(call, context.project.settings, { ...parsed, cancellation }));
    }),
    imageEdits: relay(uploadKinds.edits),
    transcriptions: relay(uploadKinds.transcriptions),
    translations: relay(uploadKinds.translations),
  };
}

const parseBody = createBodyParser(new URL('../media-bodies.ts', import.meta.url).href, parseMediaBody);

async function parseCall(
  received: MediaRequestContext,
  route: 'images' | 'speech',
): Promise<{ readonly call: MediaCall; readonly parsed: MediaRequestSummary }> {
  const { body, bodyBytes, caller } = received;
  const parsed = await parseBody(caller.projectId, body, { route });
  assertModel(parsed.model);
  return { call: toMediaCall(received, { route, requestedModel: parsed.model, bodyBytes }), parsed };
}

function setFormatWarning(response: ServerResponse, format: string | null): void {
  const warning = warnOfImageFormat(format);
  if (warning !== null) response.setHeader('x-gateway-warning', warning);
}

/** Throws `no_route` if no model can have this name, because it's too long or contains a lone surrogate. */
function assertModel(model: string): void {
  if (model.length > maxModelLength) throw modelTooLong(model);
  if (!model.isWellFormed()) throw noRoute(undefined, `${quoteName(model)} contains a lone surrogate, which cannot be part of a URL`);
}
