/** Translates a vendor's plain or streamed response for a caller of another dialect. */
import type { AssistantTurn } from '../../core/call.ts';
import { VendorError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import type { ResponseSummary } from '../../dialects/contract/route-codec.ts';
import { asLosslessObject } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import type { StreamTranslator } from '../../dialects/translate/stream.ts';
import type { ChunkReader, StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { JsonResponse, StreamResponse } from '../../vendors/text.ts';

/**
 * Returns the translated body. If `translate` returns null because it doesn't understand the response, this throws a
 * VendorError `unreadable`.
 */
export function translateJson({ bytes, status }: JsonResponse, translate: (answer: JsonObject) => JsonObject | null): JsonObject {
  const translated = translate(asLosslessObject(parseLossless(bytes.toString('utf8'))));
  if (translated === null)
    throw new VendorError('unreadable', "the vendor's response cannot be translated to the caller's format", { status });
  return translated;
}

export function withBody(response: JsonResponse, body: JsonObject): JsonResponse {
  return { ...response, contentType: 'application/json', bytes: Buffer.from(JSON.stringify(body)) };
}

/**
 * Replaces the assistant's turn in a response summary with the version that the caller sees, because the caller sends
 * this version back in its next request. If the conversion throws, we return the summary unchanged, so that the call is
 * still charged what the vendor reported.
 */
export function withTurn(summary: ResponseSummary, convert: (turn: AssistantTurn) => AssistantTurn): ResponseSummary {
  try {
    return { ...summary, turn: convert(summary.turn) };
  } catch {
    return summary;
  }
}

/** Returns a stream with the translated chunks and the summary of the vendor's own stream. */
export function translateStream(response: StreamResponse, translator: StreamTranslator): StreamResponse {
  const chunks = (): ChunkReader => {
    const inner = response.chunks();
    let end: StreamEnd | null = null;
    /** Translates one chunk of the vendor's stream, or its end. Returns null if that doesn't produce any output. */
    const advance = (step: StreamChunk | StreamEnd): StreamChunk | null => {
      const cut = step.kind === 'broken' ? step : null;
      const isLast = step.kind === 'chunk' ? step.isLast : true;
      const translated = step.kind === 'chunk' ? step.events.map(translator.push).join('') : '';
      const text = isLast && cut === null ? translated + translator.end() : translated;
      const { begun, ended, problem, usageEvent } = translator.state();
      if (cut === null && ended !== 'broken' && (!isLast || ended === 'whole')) {
        if (isLast) end = { kind: 'whole' };
        return text === '' ? null : toChunk(text, isLast, usageEvent);
      }
      const message = cut?.message ?? problem ?? "the vendor's stream cannot be translated to the caller's format";
      const failure = begun ? translator.fail(message) : '';
      end = { ...cut, kind: 'broken', message, errorForwarded: failure !== '' };
      return text + failure === '' ? null : toChunk(text + failure, false, usageEvent);
    };
    return {
      ...inner,
      read() {
        for (;;) {
          if (end !== null) return end;
          const step = inner.read();
          const chunk = step && advance(step);
          if (chunk !== null || step === null) return chunk;
        }
      },
    };
  };
  return { ...response, chunks };
}

/**
 * Wraps the text of one or more events as a chunk. If one of the events reports nothing but usage, pass its text as
 * `usageEvent`.
 */
function toChunk(text: string, isLast: boolean, usageEvent: string | undefined): StreamChunk {
  const bytes = Buffer.from(text);
  const start = usageEvent === undefined ? -1 : bytes.lastIndexOf(usageEvent);
  return usageEvent === undefined || start < 0
    ? { kind: 'chunk', bytes, events: [], isLast }
    : { kind: 'chunk', bytes, events: [], isLast, usage: [{ start, end: start + Buffer.byteLength(usageEvent) }] };
}
