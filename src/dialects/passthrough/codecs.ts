/**
 * Codecs for the routes whose body we forward unread except for the model, i.e. embeddings, moderations and rerank
 * (docs/vendors.md). The responses route uses the same request parser.
 */
import type { TextRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { asCount, asObject, isObject, parseJson } from '../../core/json/narrow.ts';
import type { BodySpans, Splice } from '../../core/json/spans.ts';
import { setMember } from '../../core/json/spans.ts';
import { noTokens } from '../../core/pricing.ts';
import type { RequestSummary, ResponseSummary, RouteCodec } from '../contract/route-codec.ts';
import { billedKeys, parseOutputLimit, parseStringMember, rejectDuplicateKeys } from '../json/body-members.ts';

export const embeddings = createPassthrough('embeddings', '/embeddings', ({ usage }) => parseTotalTokens(usage));

/** Moderations are free and report no usage, so zero is the exact count. */
export const moderations = createPassthrough('moderations', '/moderations', ({ usage }) =>
  usage === undefined ? noUsage : parseTotalTokens(usage),
);

/** Rerank is billed by search units if the vendor reports them, and by tokens otherwise. */
export const rerank = createPassthrough('rerank', '/rerank', ({ usage, meta }) => {
  const searches = asCount(asObject(asObject(meta).billed_units).search_units);
  return searches === undefined ? parseTotalTokens(usage) : { ...noUsage, searches };
});

function reportsError({ error }: Readonly<Record<string, unknown>>): boolean {
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
      const response = parseJson(bytes.toString('utf8'));
      // Some vendors return a bare list, and some report errors with status 200.
      const isResponse = Array.isArray(response) || (isObject(response) && !reportsError(response));
      return isResponse ? { ...readUsage(asObject(response)), turn: { text: '', toolCalls: [] }, generatedCharacters: 0 } : null;
    },
    createStreamReader() {
      throw new Error(`${route} has no streams`);
    },
    formatStreamError: () => null,
  };
}

/** Reads `prompt_tokens` or else `total_tokens`, which is the same because these routes have no output tokens. */
function parseTotalTokens(usage: unknown): UsageSummary {
  const { prompt_tokens: prompt, total_tokens: total } = asObject(usage);
  const input = asCount(prompt) ?? asCount(total);
  return input === undefined ? { tokens: null, isFinal: false } : { tokens: { ...noTokens, input }, isFinal: true };
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
  const stream = options.mayStream ? members.get('stream') : undefined;
  if (stream && stream.kind !== 'true' && stream.kind !== 'false') throw gatewayError('bad_json', { message: 'stream: must be a boolean' });
  const { limits } = options;
  return {
    model,
    stream: stream?.kind === 'true',
    maxOutputTokens: limits === undefined ? null : parseOutputLimit(body, spans, limits),
    user: parseStringMember(body, members.get('user')),
  };
}

export function patchModel(_body: Buffer, spans: BodySpans, vendorModel: string): Splice[] {
  return [setMember(spans, 'model', JSON.stringify(vendorModel))];
}
