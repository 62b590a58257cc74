/** POST /v1/moderations and POST /v1/rerank: both look at which words a text holds. */

import { readContent } from './conversation.ts';
import { errorAnswer } from './errors.ts';
import { countOf, isObject, textOf } from './json.ts';
import { type Answer, jsonAnswer, type Question } from './response.ts';
import { countTokens, wordsOf } from './tokens.ts';

/** Flags the words of a short list; no usage, as the real one. */
export function answerModerations({ json, script, order }: Question): Answer {
  const { input } = json;
  const texts = typeof input === 'string' ? [input] : Array.isArray(input) && input.length > 0 ? moderationTexts(input) : null;
  if (texts === null) return errorAnswer('openai', { status: 400, message: "Missing required parameter: 'input'." });
  return jsonAnswer({ id: `modr-demo-${order}`, model: script.model, results: texts.map(judge) });
}

/** A list of parts is one input; a list of texts are many. */
function moderationTexts(input: readonly unknown[]): readonly string[] {
  return input.some(isObject) ? [readContent(input, ['text']).text] : input.map(textOf);
}

function judge(text: string): object {
  const words = new Set(wordsOf(text));
  const found = Object.entries(FLAGGED_WORDS).map(([category, listed]) => [category, listed.some((word) => words.has(word))] as const);
  return {
    flagged: found.some(([, isFlagged]) => isFlagged),
    categories: Object.fromEntries(found),
    category_scores: Object.fromEntries(found.map(([category, isFlagged]) => [category, isFlagged ? 0.98 : 0.001])),
    category_applied_input_types: Object.fromEntries(found.map(([category]) => [category, ['text']])),
  };
}

const FLAGGED_WORDS: Readonly<Record<string, readonly string[]>> = {
  harassment: ['idiot', 'stupid'],
  hate: ['hate'],
  'self-harm': ['suicide'],
  sexual: ['porn'],
  violence: ['kill', 'murder', 'attack'],
};

/** Scores are the share of words that query and document have in common. */
export function answerRerank({ json, script, order }: Question): Answer {
  const query = textOf(json.query);
  const documents = Array.isArray(json.documents) ? json.documents.map(documentText) : [];
  if (query === '' || documents.length === 0) {
    return errorAnswer('openai', { status: 400, message: "'query' and 'documents' are required and may not be empty." });
  }
  const queryWords = new Set(wordsOf(query));
  const results = documents
    .map((text, index) => ({ index, relevance_score: overlap(queryWords, new Set(wordsOf(text))), document: { text } }))
    .sort((left, right) => right.relevance_score - left.relevance_score || left.index - right.index)
    .slice(0, countOf(json.top_n) ?? countOf(json.top_k) ?? documents.length)
    .map(({ document, ...result }) => (json.return_documents === true ? { ...result, document } : result));
  const characters = documents.reduce((sum, text) => sum + text.length, query.length * documents.length);
  return jsonAnswer({
    id: `rerank-demo-${order}`,
    model: script.model,
    results,
    ...(script.usage === 'none' ? {} : { usage: { total_tokens: countTokens(characters) } }),
  });
}

function documentText(document: unknown): string {
  return isObject(document) ? textOf(document.text) : textOf(document);
}

function overlap(left: ReadonlySet<string>, right: ReadonlySet<string>): number {
  const all = left.union(right).size;
  return all === 0 ? 0 : left.intersection(right).size / all;
}
