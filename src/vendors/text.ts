/**
 * One attempt at a vendor of the text routes: sends the body, waits until it is certain that an answer comes, and hands it over.
 *
 * Until the first piece of a stream has been seen everything that goes wrong is thrown as a VendorError, so that another model can be
 * tried. After that the stream ends with how it ended; it does not throw.
 */
import { VendorError } from '../core/errors.ts';
import type { AnswerReading, RouteRules } from '../dialects/contract/route-codec.ts';
import { readVendorMessage } from '../dialects/contract/vendor-message.ts';
import type { VendorDoor, VendorResponse } from './http-client.ts';
import { readAll } from './http-client.ts';
import { readRetryAfter } from './retry-after.ts';
import type { StreamEnd, StreamPiece } from './stream.ts';
import { relayEvents } from './stream.ts';
import { withoutSecrets } from './strip-secrets.ts';
import type { Provider } from './vendor.ts';

const answerLimitBytes = 64 * 1024 * 1024;
const errorLimitBytes = 64 * 1024;
const vendorMessageLength = 500;

export interface TextRequest {
  readonly provider: Provider;
  readonly rules: RouteRules;
  readonly body: Buffer;
  readonly stream: boolean;
  readonly passedHeaders: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** For a vendor's `Retry-After` that is a date: asked when the answer is there, which may be long after the request. */
  readonly now: () => number;
}

export interface PlainAnswer {
  readonly kind: 'plain';
  readonly status: number;
  readonly contentType: string;
  readonly bytes: Buffer;
  readonly reading: AnswerReading;
}

export interface StreamedAnswer {
  readonly kind: 'stream';
  readonly status: number;
  /** Pieces in order; returns how the stream ended. Stopping early (`return`) ends the vendor's request. Throws VendorError `aborted`. */
  pieces(): AsyncGenerator<StreamPiece, StreamEnd>;
  reading(): AnswerReading;
}

export type VendorAnswer = PlainAnswer | StreamedAnswer;

/** Throws VendorError. */
export async function askVendor(door: VendorDoor, request: TextRequest): Promise<VendorAnswer> {
  const { provider, rules, body, stream, signal } = request;
  const response = await door.send({
    url: new URL(provider.baseUrl + rules.path),
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: stream ? 'text/event-stream' : 'application/json',
      'accept-encoding': 'identity',
      ...(rules.route === 'messages' ? { 'anthropic-version': '2023-06-01' } : {}),
      ...request.passedHeaders,
      ...provider.headers,
    },
    body,
    connectTimeoutMs: provider.connectTimeoutMs,
    firstByteTimeoutMs: provider.firstByteTimeoutMs,
    idleTimeoutMs: provider.idleTimeoutMs,
    ...(signal ? { signal } : {}),
  });
  if (response.status < 200 || response.status > 299) throw await readRefusal(response, request);
  return stream ? openStream(response, request) : readPlain(response, request);
}

async function readPlain(response: VendorResponse, { provider, rules }: TextRequest): Promise<PlainAnswer> {
  const bytes = await readAll(response.body, answerLimitBytes);
  const reading = rules.readAnswer(bytes);
  if (reading === null) {
    // An error that some vendors tell with status 200.
    const words = bytes.length > errorLimitBytes ? null : vendorWords(readVendorMessage(bytes), provider);
    const message = `the answer is no answer of ${rules.route}${words === null ? '' : `: ${words}`}`;
    throw new VendorError('unreadable', message, { status: response.status });
  }
  return { kind: 'plain', status: response.status, contentType: headerOf(response, 'content-type') ?? 'application/json', bytes, reading };
}

async function readRefusal(response: VendorResponse, { provider, now }: TextRequest): Promise<VendorError> {
  const { status } = response;
  // An error body that cannot be read does not change what the status says.
  const bytes = await readAll(response.body, errorLimitBytes).catch(() => Buffer.alloc(0));
  const vendorMessage = vendorWords(readVendorMessage(bytes) ?? plainTextOf(response, bytes), provider);
  const retryAfterMs = status === 429 ? readRetryAfter(response.headers, bytes, now()) : undefined;
  const message = `the vendor answered ${status}${vendorMessage === null ? '' : `: ${vendorMessage}`}`;
  return new VendorError('status', message, { status, vendorMessage, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}

function vendorWords(words: string | null, { secrets }: Provider): string | null {
  return words === null ? null : withoutSecrets(words, secrets).slice(0, vendorMessageLength);
}

/** What proxies in front of vendors say is often no JSON. */
function plainTextOf(response: VendorResponse, bytes: Buffer): string | null {
  return /^text\/plain\b/i.test(headerOf(response, 'content-type') ?? '') ? bytes.toString('utf8').trim() || null : null;
}

async function openStream(response: VendorResponse, { provider, rules }: TextRequest): Promise<StreamedAnswer> {
  const type = headerOf(response, 'content-type') ?? 'text/event-stream';
  if (!/^text\/event-stream\b/i.test(type)) {
    response.release();
    throw new VendorError('unreadable', 'the answer is no event stream', { status: response.status });
  }
  const reader = rules.createStreamReader();
  const relay = relayEvents(response.body, reader, provider.secrets);
  // Keep-alives are no piece: a vendor that sends nothing else is as silent as one that sends nothing.
  const tooLate = setTimeout(
    () => response.body.destroy(new VendorError('timeout', 'no piece of the answer in time')),
    provider.firstByteTimeoutMs,
  );
  const first = await relay.next().finally(() => clearTimeout(tooLate));
  if (first.done) {
    const reason = first.value.kind === 'broken' ? first.value.message : 'it was empty';
    throw new VendorError('broken', `the stream failed before its first piece: ${reason}`, { status: response.status });
  }
  const opening = first.value;
  async function* pieces(): AsyncGenerator<StreamPiece, StreamEnd> {
    try {
      yield opening;
      return yield* relay;
    } finally {
      // Where the reader stopped early this ends the request; behind a whole answer it does nothing.
      await relay.return({ kind: 'whole' });
      response.release();
    }
  }
  return { kind: 'stream', status: response.status, pieces, reading: () => reader.reading() };
}

function headerOf(response: VendorResponse, name: string): string | null {
  const value = response.headers[name];
  return typeof value === 'string' ? value : (value?.[0] ?? null);
}
