/** Handles models that charge for searches, i.e. some rerank models. */
import type { Call } from '../../core/call.ts';
import { scanElements, scanObject } from '../../core/json/spans.ts';
import type { Price } from '../../core/pricing.ts';

/**
 * Returns true if the model charges for searches but not for tokens. If its vendor doesn't report the number of
 * searches, we have to estimate it, because the call would be free otherwise.
 */
export function isChargedBySearch({ route }: Call, { perSearchNanos, inputNanos }: Price): boolean {
  return route === 'rerank' && perSearchNanos !== undefined && inputNanos === 0n;
}

/** Estimates the searches of a rerank call. Vendors bill a hundred documents as one search. */
export function estimateSearches({ body }: Call): number {
  const documents = scanObject(body, documentsKey).members.get('documents');
  const count = documents?.kind === 'array' ? scanElements(body, documents.value.start).reduce((sum) => sum + 1, 0) : 0;
  return Math.max(1, Math.ceil(count / 100));
}

const documentsKey = new Set(['documents']);
