/** `POST /v1/audio/speech`: asks one provider to speak, and passes its audio on as it comes. */
import type { MediaCall } from '../../core/call.ts';
import { noTokens } from '../../core/pricing.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { countCharacters, getPromptTexts } from '../../dialects/media/image-speech.ts';
import { prepareSpeech } from '../../vendors/speech.ts';
import type { CallCancellation } from '../call/cancellation.ts';
import type { ProjectContext } from '../call/project-context.ts';
import type { MediaStream } from './handle-media-call.ts';
import type { MediaRouteDeps } from './images.ts';
import { requireProvider } from './images.ts';

export type SynthesizeSpeech = (
  call: MediaCall,
  project: ProjectContext,
  request: { readonly fields: MediaFields; readonly cancellation: CallCancellation },
) => Promise<MediaStream>;

/** Vendors count neither tokens nor seconds of audio in an answer of bytes (vendor facts 1.7). English is spoken so fast… */
const charactersPerSecond = 15;
/** …and OpenAI makes so many tokens of it: its list price for a minute, 0.015 USD, divided by that for a token. */
const tokensPerSecond = 1_250 / 60;
/** Nobody who is understood speaks so many times slower. */
const maxSlowdown = 4;

export function createSynthesizeSpeech({ planMedia, findProvider, mediaCalls, httpClient, clock }: MediaRouteDeps): SynthesizeSpeech {
  /** Throws GatewayError; the call has been recorded then, if the vendor was asked. */
  return async function synthesizeSpeech(call, project, { fields, cancellation }) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = requireProvider(candidate, findProvider);
    const send = prepareSpeech({ provider, model: candidate.model, fields, now: () => clock.now() });
    const characters = countCharacters(fields);
    const seconds = characters / charactersPerSecond;
    const isCounted = candidate.unitPrices.perMillionCharactersNanos !== null;
    const units = isCounted ? { characters } : { characters, seconds };
    const texts = getPromptTexts(fields);
    const estimatedTokens = { ...noTokens, input: estimateTokens(characters), output: Math.ceil(seconds * tokensPerSecond) };
    return mediaCalls.stream(
      {
        call,
        project,
        texts,
        candidate,
        units,
        unitsEstimated: !isCounted,
        estimatedTokens,
        maxOutputTokens: estimatedTokens.output * maxSlowdown,
      },
      cancellation,
      () => send(httpClient, cancellation.signal),
    );
  };
}
