/**
 * Speaks to a candidate in its own dialect (decisions 3). To a vendor of the caller's dialect the caller's bytes go as they are, but for
 * the spliced members, and the answer comes back untouched; to one of the other dialect both are translated.
 */
import type { Call, Candidate, Dialect } from '../../core/call.ts';
import { VendorError } from '../../core/errors.ts';
import { splice } from '../../core/json/spans.ts';
import type { SseEvent } from '../../core/sse.ts';
import { createSseParser } from '../../core/sse.ts';
import type { ResponseSummary, RouteCodec } from '../../dialects/contract/route-codec.ts';
import { rejectUntranslatable, UntranslatableError } from '../../dialects/contract/untranslatable.ts';
import { asLosslessObject } from '../../dialects/json/lossless-json.ts';
import { parseLossless } from '../../dialects/json/parse-lossless.ts';
import { routeCodecs } from '../../dialects/routes/route-codecs.ts';
import { requestToMessages, responseToMessages } from '../../dialects/translate/chat-to-messages.ts';
import { createStreamToMessages } from '../../dialects/translate/chat-to-messages-stream.ts';
import { toCallerTurn } from '../../dialects/translate/json-answer-tool.ts';
import { requestToChat, responseToChat } from '../../dialects/translate/messages-to-chat.ts';
import { createStreamToChat } from '../../dialects/translate/messages-to-chat-stream.ts';
import type { StreamTranslator } from '../../dialects/translate/stream.ts';
import type { StreamChunk, StreamEnd } from '../../vendors/stream.ts';
import type { StreamResponse, VendorResponse } from '../../vendors/text.ts';
import type { Provider } from '../../vendors/vendor.ts';

/** How one candidate is spoken to. */
export interface DialectAdapter {
  /** Of the form that the vendor speaks. */
  readonly codec: RouteCodec;
  readonly body: Buffer;
  /** The caller's headers that the vendor sees. */
  readonly forwardedHeaders: Readonly<Record<string, string>>;
  /** The vendor's answer in the caller's form. Throws VendorError `unreadable`. */
  toCallerResponse(response: VendorResponse): VendorResponse;
}

/** Used where neither the caller nor the catalog names a bound; messages vendors require one (vendor facts 8.1). */
const defaultMaxTokens = 4_096;

/** Throws VendorError, as if the vendor had refused, when the vendor's dialect cannot express what the caller sent. */
export function adapterFor(call: Call, candidate: Candidate, provider: Provider): DialectAdapter {
  const { route } = call;
  if ((route !== 'chat' && route !== 'messages') || candidate.dialect === route) {
    const codec = routeCodecs[route];
    return {
      codec,
      body: splice(call.body, codec.patchForVendor(call.body, call.spans, candidate.model, call.stream)),
      forwardedHeaders: call.forwardedHeaders,
      toCallerResponse: (response) => response,
    };
  }
  const identity = { id: call.id, model: candidate.model, createdSeconds: Math.floor(call.startedAt / 1000) };
  const toCaller = route === 'chat' ? responseToChat : responseToMessages;
  const createTranslator = route === 'chat' ? createStreamToChat : createStreamToMessages;
  return {
    codec: routeCodecs[candidate.dialect],
    body: translateRequest(call, candidate, provider),
    forwardedHeaders: headersFor(candidate.dialect, call.forwardedHeaders),
    toCallerResponse(response) {
      if (response.kind === 'stream') return translateStream(response, createTranslator(identity));
      const translated = toCaller(asLosslessObject(parseLossless(response.bytes.toString('utf8'))), identity);
      if (translated === null) throw new VendorError('unreadable', 'the answer cannot be translated', { status: response.status });
      const bytes = Buffer.from(JSON.stringify(translated));
      return { ...response, contentType: 'application/json', bytes, reading: asSentToCaller(response.reading) };
    },
  };
}

function translateRequest(call: Call, candidate: Candidate, provider: Provider): Buffer {
  const { model, traits } = candidate;
  const { stream } = call;
  const parsed = parseLossless(call.body.toString('utf8'));
  try {
    // Its syntax is known to be right.
    if (parsed === undefined)
      rejectUntranslatable('the body is nested too deeply, or has too many values, to be told in the other dialect');
    const body = asLosslessObject(parsed);
    const translated =
      candidate.dialect === 'messages'
        ? requestToMessages(body, { ...traits, model, stream, maxTokens: candidate.maxOutputTokens ?? defaultMaxTokens })
        : requestToChat(body, { ...traits, model, stream, maxTokensField: maxTokensField(provider) });
    return Buffer.from(JSON.stringify(translated));
  } catch (error) {
    if (!(error instanceof UntranslatableError)) throw error;
    throw new VendorError('status', error.message, { status: 400, vendorMessage: error.message, cause: error });
  }
}

/** Those of a dialect are for its own vendors. The version is ours: the one that is translated to. */
function headersFor(dialect: Dialect, forwarded: Readonly<Record<string, string>>): Record<string, string> {
  const prefix = dialect === 'chat' ? 'openai-' : 'anthropic-';
  const isForwarded = (name: string): boolean => name === 'idempotency-key' || (name.startsWith(prefix) && name !== 'anthropic-version');
  return Object.fromEntries(Object.entries(forwarded).filter(([name]) => isForwarded(name)));
}

/** OpenAI's reasoning models refuse `max_tokens`; many of those who speak its dialect know nothing else. */
function maxTokensField({ baseUrl }: Provider): 'max_completion_tokens' | 'max_tokens' {
  const { hostname } = new URL(baseUrl);
  return hostname === 'api.openai.com' || hostname.endsWith('.openai.azure.com') ? 'max_completion_tokens' : 'max_tokens';
}

function translateStream(response: StreamResponse, translator: StreamTranslator): StreamResponse {
  const parser = createSseParser();
  const translate = (events: readonly SseEvent[]): string => events.map((event) => translator.push(event)).join('');
  /** The vendor's last event may lack its blank line, and its closing event. */
  const finish = (): string => translate(parser.end().events) + translator.end();

  async function* pieces(): AsyncGenerator<StreamChunk, StreamEnd> {
    const inner = response.pieces();
    try {
      for (;;) {
        const step = await inner.next();
        if (step.done && step.value.kind === 'broken') return { ...step.value, errorForwarded: false };
        const isLast = step.done === true || step.value.isLast;
        const text = (step.done ? '' : translate(parser.push(step.value.bytes).events)) + (isLast ? finish() : '');
        const { ended, problem } = translator.state();
        const isBroken = ended === 'broken' || (isLast && ended !== 'whole');
        if (text !== '') yield { bytes: Buffer.from(text), isLast: isLast && !isBroken };
        if (isBroken) return { kind: 'broken', message: problem ?? 'the stream cannot be translated', errorForwarded: false };
        if (isLast) return { kind: 'whole' };
      }
    } finally {
      await inner.return({ kind: 'whole' });
    }
  }
  return { ...response, pieces, reading: () => asSentToCaller(response.reading()) };
}

/** Memory keeps what the caller was told: it will come back in the caller's next call. */
function asSentToCaller(summary: ResponseSummary): ResponseSummary {
  return { ...summary, turn: toCallerTurn(summary.turn) };
}
