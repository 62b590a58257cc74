/** Estimates what rerank vendors bill. Some charge for searches, and others for tokens. */
import type { Call } from '../../core/call.ts';
import { scanElements } from '../../core/json/spans.ts';
import type { Price } from '../../core/pricing.ts';

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
 * Returns how many bytes a rerank model reads in addition to the body, because it reads the query again for each further
 * document, and Voyage and Jina bill it each time. Returns 0 on other routes.
 */
export function repeatedQueryBytes(call: Call): number {
  const query = call.route === 'rerank' ? call.spans.members.get('query')?.value : undefined;
  return query === undefined ? 0 : (query.end - query.start) * Math.max(0, countDocuments(call) - 1);
}

export function countDocuments({ body, spans }: Call): number {
  const documents = spans.members.get('documents');
  return documents?.kind === 'array' ? scanElements(body, documents.value.start).reduce((sum) => sum + 1, 0) : 0;
}
