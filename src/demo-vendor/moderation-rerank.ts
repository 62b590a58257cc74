/**
 * Handles POST /v1/moderations and POST /v1/rerank. Moderation looks for words from a list, and rerank counts how many
 * words a document shares with the query.
 */

import { readContent } from './conversation.ts';
import { badRequest } from './errors.ts';
import { asCount, asString, isObject } from './json.ts';
import { type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';
import { countTokens, termsOf } from './tokens.ts';

/** Flags texts with words from a short list. There's no `usage` in the response, just as in OpenAI's. */
export function handleModerations({ json, model, requestNumber }: DemoRequest): DemoResponse {
  const { input } = json;
  const texts = typeof input === 'string' ? [input] : Array.isArray(input) && input.length > 0 ? moderationTexts(input) : null;
  if (texts === null) return badRequest("Missing required parameter: 'input'.");
  return jsonResponse({ id: `modr-demo-${requestNumber}`, model, results: texts.map(classify) });
}

/**
 * Returns the texts to classify. An array of strings contains several inputs, but an array of parts is a single one.
 */
function moderationTexts(input: readonly unknown[]): readonly string[] {
  return input.some(isObject) ? [readContent(input, ['text']).text] : input.map(asString);
}

function classify(text: string): object {
  const terms = new Set(termsOf(text));
  const matches = Object.entries(flaggedTerms).map(([category, listed]) => [category, listed.some((term) => terms.has(term))] as const);
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

/**
 * The score of a document is the number of words that it shares with the query, divided by the number of words that
 * occur in either of them.
 */
export function handleRerank({ json, model, requestNumber }: DemoRequest): DemoResponse {
  const query = asString(json.query);
  const documents = Array.isArray(json.documents) ? json.documents.map(documentText) : [];
  if (query === '' || documents.length === 0) return badRequest("'query' and 'documents' are required and may not be empty.");
  const queryTerms = new Set(termsOf(query));
  const results = documents
    .map((text, index) => ({ index, relevance_score: overlap(queryTerms, new Set(termsOf(text))), document: { text } }))
    .sort((left, right) => right.relevance_score - left.relevance_score || left.index - right.index)
    .slice(0, asCount(json.top_n) ?? asCount(json.top_k) ?? documents.length)
    .map(({ document, ...result }) => (json.return_documents === true ? { ...result, document } : result));
  const characters = documents.reduce((sum, text) => sum + text.length, query.length * documents.length);
  return jsonResponse({
    id: `rerank-demo-${requestNumber}`,
    model,
    results,
    usage: { total_tokens: countTokens(characters) },
  });
}

function documentText(document: unknown): string {
  return isObject(document) ? asString(document.text) : asString(document);
}

function overlap(left: ReadonlySet<string>, right: ReadonlySet<string>): number {
  const all = left.union(right).size;
  return all === 0 ? 0 : left.intersection(right).size / all;
}
