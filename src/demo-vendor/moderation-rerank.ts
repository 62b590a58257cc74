/** POST /v1/moderations and POST /v1/rerank: both look at which words a text holds. */

import { readContent } from './conversation.ts';
import { errorResponse } from './errors.ts';
import { asCount, asString, isObject } from './json.ts';
import { type IncomingRequest, jsonResponse, type OutgoingResponse } from './response.ts';
import { countTokens, termsOf } from './tokens.ts';

/** Flags the words of a short list; no usage, as the real one. */
export function handleModerations({ json, script, order }: IncomingRequest): OutgoingResponse {
  const { input } = json;
  const texts = typeof input === 'string' ? [input] : Array.isArray(input) && input.length > 0 ? moderationTexts(input) : null;
  if (texts === null) return errorResponse('openai', { status: 400, message: "Missing required parameter: 'input'." });
  return jsonResponse({ id: `modr-demo-${order}`, model: script.model, results: texts.map(classify) });
}

/** A list of parts is one input; a list of texts are many. */
function moderationTexts(input: readonly unknown[]): readonly string[] {
  return input.some(isObject) ? [readContent(input, ['text']).text] : input.map(asString);
}

function classify(text: string): object {
  const terms = new Set(termsOf(text));
  const matches = Object.entries(flaggedTerms).map(([category, listed]) => [category, listed.some((word) => terms.has(word))] as const);
  return {
    flagged: matches.some(([, isFlagged]) => isFlagged),
    categories: Object.fromEntries(matches),
    category_scores: Object.fromEntries(matches.map(([category, isFlagged]) => [category, isFlagged ? 0.98 : 0.001])),
    category_applied_input_types: Object.fromEntries(matches.map(([category]) => [category, ['text']])),
  };
}

const flaggedTerms: Readonly<Record<string, readonly string[]>> = {
  harassment: ['idiot', 'stupid'],
  hate: ['hate'],
  'self-harm': ['suicide'],
  sexual: ['porn'],
  violence: ['kill', 'murder', 'attack'],
};

/** Scores are the share of words that query and document have in common. */
export function handleRerank({ json, script, order }: IncomingRequest): OutgoingResponse {
  const query = asString(json.query);
  const documents = Array.isArray(json.documents) ? json.documents.map(documentText) : [];
  if (query === '' || documents.length === 0) {
    return errorResponse('openai', { status: 400, message: "'query' and 'documents' are required and may not be empty." });
  }
  const queryTerms = new Set(termsOf(query));
  const results = documents
    .map((text, index) => ({ index, relevance_score: overlap(queryTerms, new Set(termsOf(text))), document: { text } }))
    .sort((left, right) => right.relevance_score - left.relevance_score || left.index - right.index)
    .slice(0, asCount(json.top_n) ?? asCount(json.top_k) ?? documents.length)
    .map(({ document, ...result }) => (json.return_documents === true ? { ...result, document } : result));
  const characters = documents.reduce((sum, text) => sum + text.length, query.length * documents.length);
  return jsonResponse({
    id: `rerank-demo-${order}`,
    model: script.model,
    results,
    ...(script.usage === 'none' ? {} : { usage: { total_tokens: countTokens(characters) } }),
  });
}

function documentText(document: unknown): string {
  return isObject(document) ? asString(document.text) : asString(document);
}

function overlap(left: ReadonlySet<string>, right: ReadonlySet<string>): number {
  const all = left.union(right).size;
  return all === 0 ? 0 : left.intersection(right).size / all;
}
