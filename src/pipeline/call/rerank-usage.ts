/** Estimates what rerank vendors bill. Some charge for searches, and others for tokens. */
import type { Call } from '../../core/call.ts';
import { scanElements } from '../../core/json/spans.ts';
import type { Price } from '../../core/pricing.ts';
import { countMedia } from '../../dialects/routes/outside-input.ts';

/**
 * Returns true if the model charges for searches but not for tokens. If its vendor doesn't report the number of
 * searches, we have to estimate it, because the call would be free otherwise.
 */
export function isChargedBySearch({ route }: Call, { perSearchNanos, inputNanos }: Price): boolean {
  return route === 'rerank' && perSearchNanos !== undefined && inputNanos === 0n;
}

/** Estimates the searches of a rerank call. Vendors bill a hundred documents as one search. */
export function estimateSearches(call: Call): number {
  return Math.max(1, Math.ceil(countDocuments(call) / 100));
}

/**
 * Returns what a rerank model reads in addition to the body, because it reads the query again for each further document,
 * and Voyage and Jina bill it each time. For a query with media, that's only the number of media items, since each of
 * them can fill the window. Both are 0 on other routes.
 */
export function repeatedQuery(call: Call): { readonly bytes: number; readonly media: number } {
  const query = call.route === 'rerank' ? call.spans.members.get('query') : undefined;
  const times = query === undefined ? 0 : countDocuments(call) - 1;
  if (query === undefined || times <= 0) return nothing;
  const text = call.body.subarray(query.value.start, query.value.end);
  const media = query.kind === 'string' ? 0 : countMedia(Buffer.concat([queryStart, text, queryEnd]), 'rerank');
  return media > 0 ? { bytes: 0, media: media * times } : { bytes: text.length * times, media: 0 };
}

const nothing = { bytes: 0, media: 0 };
const [queryStart, queryEnd] = [Buffer.from('{"query":'), Buffer.from('}')];

function countDocuments({ body, spans }: Call): number {
  const documents = spans.members.get('documents');
  return documents?.kind === 'array' ? scanElements(body, documents.value.start).reduce((sum) => sum + 1, 0) : 0;
}
