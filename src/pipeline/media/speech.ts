/** `POST /v1/audio/speech`: asks one provider to speak, and passes its audio on as it comes. */
import type { MediaCall } from '../../core/call.ts';
import { noTokens } from '../../core/pricing.ts';
import { estimateTokens } from '../../dialects/contract/token-usage.ts';
import type { MediaFields } from '../../dialects/media/image-speech.ts';
import { countCharacters, textsOf } from '../../dialects/media/image-speech.ts';
import { prepareSpeech } from '../../vendors/speech.ts';
import type { CallControl } from '../call/cancellation.ts';
import type { CalledProject } from '../call/project-context.ts';
import type { MediaStream } from './handle-media-call.ts';
import type { MediaRouteDeps } from './images.ts';
import { providerOf } from './images.ts';

export type AnswerSpeech = (
  call: MediaCall,
  project: CalledProject,
  request: { readonly fields: MediaFields; readonly control: CallControl },
) => Promise<MediaStream>;

/** Vendors count neither tokens nor seconds of audio in an answer of bytes (vendor facts 1.7). English is spoken so fast… */
const charactersOfSecond = 15;
/** …and OpenAI makes so many tokens of it: its list price for a minute, 0.015 USD, divided by that for a token. */
const tokensOfSecond = 1_250 / 60;
/** Nobody who is understood speaks so many times slower. */
const slowest = 4;

export function createAnswerSpeech({ planMedia, findProvider, mediaCalls, door, clock }: MediaRouteDeps): AnswerSpeech {
  /** Throws GatewayError; the call has been recorded then, if the vendor was asked. */
  return async function answerSpeech(call, project, { fields, control }) {
    const candidate = planMedia(call, project, await mediaCalls.requiresPrice(call, project));
    const provider = providerOf(candidate, findProvider);
    const ask = prepareSpeech({ provider, model: candidate.model, fields, now: () => clock.now() });
    const characters = countCharacters(fields);
    const seconds = characters / charactersOfSecond;
    const isCounted = candidate.unitPrices.perMillionCharactersNanos !== null;
    const units = isCounted ? { characters } : { characters, seconds };
    const texts = textsOf(fields);
    const likelyTokens = { ...noTokens, input: estimateTokens(characters), output: Math.ceil(seconds * tokensOfSecond) };
    return mediaCalls.stream(
      { call, project, texts, candidate, units, areUnitsLikely: !isCounted, likelyTokens, mostOutputTokens: likelyTokens.output * slowest },
      control,
      () => ask(door, control.signal),
    );
  };
}
