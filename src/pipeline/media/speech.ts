/** Handles `POST /v1/audio/speech`. Synthesizes speech at one provider and relays the audio stream. */
import type { MediaCall } from '../../core/call.ts';
import { noTokens } from '../../core/pricing.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import { getSlowdown, type MediaRequestSummary, pickFields } from '../../dialects/media/image-speech.ts';
import { charactersPerSecond } from '../../dialects/media/upload-usage.ts';
import { prepareSpeech } from '../../vendors/speech.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaStream } from './handle-media-call.ts';
import { type MediaRouteDeps, requireProvider } from './images.ts';

export type SynthesizeSpeech = (
  call: MediaCall,
  project: ProjectContext,
  request: Omit<MediaRequestSummary, 'model'> & { readonly cancellation: CallCancellation },
) => Promise<MediaStream>;

/** OpenAI's audio tokens per second, i.e. the list price for a minute (0.015 USD) divided by the price of a token. */
const tokensPerSecond = 1_250 / 60;
/** A slow voice can take up to this many times as long as an average one. */
const maxSlowdown = 4;

export function createSynthesizeSpeech({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): SynthesizeSpeech {
  return async function synthesizeSpeech(call, project, { fields, texts, characters, cancellation }) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = requireProvider(candidate, findProvider);
    const send = prepareSpeech({ provider, model: candidate.model, fields, takes: candidate.takes, now: () => clock.now() });
    // Vendors report neither tokens nor seconds for generated speech, so we estimate the seconds from the text.
    const seconds = (characters / charactersPerSecond) * getSlowdown(pickFields(fields, candidate.takes));
    const isCounted = candidate.unitPrices.perMillionCharactersNanos !== null;
    const units = isCounted ? { characters } : { characters, seconds };
    const estimatedTokens = { ...noTokens, input: estimateTokens(characters), output: Math.ceil(seconds * tokensPerSecond) };
    return mediaCalls.stream(
      {
        call,
        project,
        texts,
        candidate,
        units,
        maxUnits: isCounted ? units : { characters, seconds: seconds * maxSlowdown },
        unitsEstimated: !isCounted,
        estimatedTokens,
        maxOutputTokens: estimatedTokens.output * maxSlowdown,
      },
      cancellation,
      (onRequestId) => send(httpClient, { signal: cancellation.signal, onRequestId }),
    );
  };
}
