/**
 * Codecs for embeddings, moderations and rerank (docs/vendors.md). We forward their bodies without reading anything but
 * the model. The codec for the responses route also uses `parsePassthroughRequest`.
 */
import type { TextRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { characters } from '../../core/json/characters.ts';
import { asCount, asObject, isObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import { type BodySpans, type Splice, setMember } from '../../core/json/spans.ts';
import { skipSpace } from '../../core/json/syntax.ts';
import { noTokens } from '../../core/pricing.ts';
import type { RequestSummary, ResponseSummary, RouteCodec } from '../contract/route-codec.ts';
import { billedKeys, parseOutputLimit, parseStream, parseStringMember, parseUser, rejectDuplicateKeys } from '../json/body-members.ts';

export const embeddings = createPassthrough('embeddings', '/embeddings', ({ usage }) => parseTotalTokens(usage));

/** Moderations are free, so if the vendor reports no usage, record zero tokens as an exact count. */
export const moderations = createPassthrough('moderations', '/moderations', ({ usage }) =>
  usage === undefined ? noUsage : parseTotalTokens(usage),
);

/**
 * Vendors bill rerank by search units or by tokens. Some report both, and SiliconFlow reports zero search units although
 * it bills tokens.
 */
export const rerank = createPassthrough('rerank', '/rerank', ({ usage, meta }) => {
  const { billed_units: billed, tokens } = asObject(meta);
  const searches = asCount(asObject(billed).search_units) ?? 0;
  const inMeta = asCount(asObject(billed).input_tokens) ?? asCount(asObject(tokens).input_tokens);
  const reported = parseTotalTokens(usage);
  return {
    ...(reported.tokens === null && inMeta !== undefined ? toUsage(inMeta) : reported),
    ...(searches > 0 && { searches }),
  };
});

const embeddingKey = Buffer.from('"embedding"');
const minCutBytes = 65_536;
const { colon, openBracket, closeBracket, openBrace, quote } = characters;
/**
 * If a vector contains one of these letters, it has values other than numbers, e.g. `NaN`, `null`, `false` or
 * `Infinity`.
 */
const [letterA, letterN] = [0x61, 0x6e];

/**
 * Parses a response without its vectors, because nobody reads them and parsing 150,000 numbers takes 10 ms instead of
 * 0.3 ms. Invalid numbers in a vector go unnoticed, but the bytes are forwarded unchanged anyway.
 */
function parseWithoutVectors(bytes: Buffer): unknown {
  if (bytes.length < minCutBytes) return parseJson(bytes.toString('utf8'));
  const kept: Buffer[] = [];
  let keptTo = 0;
  let end = -1;
  for (let key = bytes.indexOf(embeddingKey); key >= 0; key = bytes.indexOf(embeddingKey, key + 1)) {
    const afterKey = skipSpace(bytes, key + embeddingKey.length);
    const start = skipSpace(bytes, afterKey + 1);
    if (bytes[afterKey] !== colon || bytes[start] !== openBracket) continue;
    if (end < start) end = bytes.indexOf(closeBracket, start);
    if (end < 0) break;
    const numbers = bytes.subarray(start + 1, end);
    if ([quote, openBracket, openBrace, letterA, letterN].some((byte) => numbers.includes(byte))) continue;
    kept.push(bytes.subarray(keptTo, start + 1));
    keptTo = end;
  }
  kept.push(bytes.subarray(keptTo));
  return parseJson(Buffer.concat(kept).toString('utf8'));
}

/** Checks for an error in the body. Some vendors report errors with status 200. */
export function reportsError({ error }: Readonly<Record<string, unknown>>): boolean {
  return isObject(error) || (typeof error === 'string' && error !== '');
}

type UsageSummary = Pick<ResponseSummary, 'tokens' | 'isFinal' | 'searches'>;

const noUsage: UsageSummary = { tokens: noTokens, isFinal: true };

function createPassthrough(
  route: TextRoute,
  path: string,
  readUsage: (response: Readonly<Record<string, unknown>>) => UsageSummary,
): RouteCodec {
  return {
    route,
    path,
    parseRequest: (body, spans) => parsePassthroughRequest(body, spans, { mayStream: false }),
    patchForVendor: patchModel,
    parseResponse(bytes) {
      const response = parseWithoutVectors(bytes);
      // Some vendors return a bare list, and some report errors with status 200.
      const isResponse = Array.isArray(response) || (isObject(response) && !reportsError(response));
      return isResponse ? { ...readUsage(asObject(response)), turn: { text: '', toolCalls: [] }, generatedCharacters: 0 } : null;
    },
    createStreamReader() {
      throw new Error(`${route} does not support streaming`);
    },
    formatStreamError: () => null,
  };
}

/**
 * Embeddings, moderations and rerank have no output tokens, so `prompt_tokens` and `total_tokens` are the same. Some
 * vendors only send one of them.
 */
function parseTotalTokens(usage: unknown): UsageSummary {
  const { prompt_tokens: prompt, total_tokens: total } = asObject(usage);
  const input = asCount(prompt) ?? asCount(total);
  return input === undefined ? { tokens: null, isFinal: false } : toUsage(input);
}

function toUsage(input: number): UsageSummary {
  return { tokens: { ...noTokens, input }, isFinal: true };
}

const keys = ['model', 'stream', 'user', ...billedKeys];

/** Throws `missing_model` if there is no model, and `bad_json` for duplicate keys or an invalid `stream`. */
export function parsePassthroughRequest(
  body: Buffer,
  spans: BodySpans,
  options: { mayStream: boolean; limits?: Parameters<typeof parseOutputLimit>[2] },
): RequestSummary {
  rejectDuplicateKeys(spans, keys);
  const { members } = spans;
  const model = parseStringMember(body, members.get('model'));
  if (model === null || model === '') throw gatewayError('missing_model');
  const stream = options.mayStream && parseStream(spans, 'stream: must be a boolean');
  const { limits } = options;
  return {
    model,
    stream,
    maxOutputTokens: limits === undefined ? null : parseOutputLimit(body, spans, limits),
    user: parseUser(body, members.get('user')),
  };
}

export function patchModel(_body: Buffer, spans: BodySpans, vendorModel: string): Splice[] {
  return [setMember(spans, 'model', JSON.stringify(vendorModel))];
}
