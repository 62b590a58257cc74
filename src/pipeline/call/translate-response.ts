/** Translates a vendor's response, plain or streamed, for a caller of another dialect. */
import { VendorError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json/narrow.ts';
import { createSseParser, type SseEvent } from '../../core/sse.ts';
import { asLosslessObject } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import type { StreamTranslator } from '../../dialects/translate/stream.ts';
import type { StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { JsonResponse, StreamResponse } from '../../vendors/text.ts';

/** Returns the body for the caller. `translate` returns null for what it cannot translate. Throws VendorError `unreadable`. */
export function translateJson({ bytes, status }: JsonResponse, translate: (answer: JsonObject) => JsonObject | null): JsonObject {
  const translated = translate(asLosslessObject(parseLossless(bytes.toString('utf8'))));
  if (translated === null) throw new VendorError('unreadable', 'the response cannot be translated', { status });
  return translated;
}

/** The response with a translated body. */
export function withBody(response: JsonResponse, body: JsonObject): JsonResponse {
  return { ...response, contentType: 'application/json', bytes: Buffer.from(JSON.stringify(body)) };
}

/** Returns the chunks for the caller, with the summary of the vendor's stream. */
export function translateStream(response: StreamResponse, translator: StreamTranslator): StreamResponse {
  const parser = createSseParser();
  const translate = (events: readonly SseEvent[]): string => events.map((event) => translator.push(event)).join('');
  /** The vendor's last event may lack its blank line, and the stream its closing event. */
  const finish = (): string => translate(parser.end().events) + translator.end();

  async function* chunks(): AsyncGenerator<StreamChunk, StreamEnd> {
    const inner = response.chunks();
    try {
      for (;;) {
        const step = await inner.next();
        const cut = step.done && step.value.kind === 'broken' ? step.value : null;
        const isLast = step.done === true || step.value.isLast;
        const text = (step.done ? '' : translate(parser.push(step.value.bytes).events)) + (isLast && cut === null ? finish() : '');
        const { begun, ended, problem, usageEvent } = translator.state();
        if (cut === null && ended !== 'broken' && (!isLast || ended === 'whole')) {
          if (text !== '') yield toChunk(text, isLast, usageEvent);
          if (isLast) return { kind: 'whole' };
          continue;
        }
        const message = cut?.message ?? problem ?? 'the stream cannot be translated';
        const failure = begun ? translator.fail(message) : '';
        if (text + failure !== '') yield toChunk(text + failure, false, usageEvent);
        return { kind: 'broken', message, errorForwarded: failure !== '' };
      }
    } finally {
      await inner.return({ kind: 'whole' });
    }
  }
  return { ...response, chunks };
}

/** The chunk of these events, of which `usageEvent` is the one that only reports usage. */
function toChunk(text: string, isLast: boolean, usageEvent: string | undefined): StreamChunk {
  const bytes = Buffer.from(text);
  const start = usageEvent === undefined ? -1 : bytes.lastIndexOf(usageEvent);
  return usageEvent === undefined || start < 0
    ? { bytes, isLast }
    : { bytes, isLast, usage: [{ start, end: start + Buffer.byteLength(usageEvent) }] };
}
