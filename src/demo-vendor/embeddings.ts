/**
 * Handles POST /v1/embeddings. The result is a unit vector that we derive from the words of a text, so texts about the
 * same topic have similar vectors.
 */

import { badRequest } from './errors.ts';
import { type DemoRequest, type DemoResponse, jsonResponse } from './response.ts';
import { countTokens, hashText, termsOf } from './tokens.ts';

const defaultDimensions = 256;
const maxDimensions = 4_096;
const indexesPerWord = 4;

/** Returns vectors as floats or base64. The input consists of strings or of arrays of token numbers. */
export function handleEmbeddings({ json, model }: DemoRequest): DemoResponse {
  const texts = parseInputs(json.input);
  const dimensions = json.dimensions ?? defaultDimensions;
  if (texts === null) return badRequest("Invalid 'input': expected a string, a non-empty array of strings, or arrays of tokens.");
  if (typeof dimensions !== 'number' || !Number.isInteger(dimensions) || dimensions < 1 || dimensions > maxDimensions) {
    return badRequest(`Invalid 'dimensions': expected a whole number from 1 to ${maxDimensions}.`);
  }
  const asBase64 = json.encoding_format === 'base64';
  const tokens = texts.reduce((sum, { tokens: count }) => sum + count, 0);
  return jsonResponse({
    object: 'list',
    data: texts.map(({ text }, index) => {
      const vector = embed(text, dimensions);
      return { object: 'embedding', index, embedding: asBase64 ? toBase64(vector) : Array.from(vector) };
    }),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}

interface Input {
  readonly text: string;
  readonly tokens: number;
}

/**
 * Returns the texts or token lists to embed. `input` is either one of these or a list of them. Returns null if it's
 * anything else.
 */
function parseInputs(input: unknown): readonly Input[] | null {
  if (typeof input === 'string') return [textInput(input)];
  const list: readonly unknown[] = Array.isArray(input) ? input : [];
  if (list.length === 0) return null;
  if (list.every((value) => typeof value === 'string')) return list.map(textInput);
  if (isTokens(list)) return [tokenInput(list)];
  return list.every(isTokens) ? list.map(tokenInput) : null;
}

function textInput(text: string): Input {
  return { text, tokens: countTokens(text.length) };
}

function tokenInput(tokens: readonly number[]): Input {
  return { text: tokens.join(' '), tokens: tokens.length };
}

function isTokens(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every(Number.isInteger);
}

/**
 * Uses feature hashing, i.e. each word adds or subtracts 1 at a few positions that are derived from its hash. Then
 * scales the vector to length 1.
 */
function embed(text: string, dimensions: number): Float32Array {
  const sums = new Float32Array(dimensions);
  for (const term of termsOf(text)) {
    let hash = hashText(term);
    for (let n = 0; n < indexesPerWord; n += 1) {
      hash = hashText(term, hash);
      const index = (hash >>> 1) % dimensions;
      sums[index] = (sums[index] ?? 0) + ((hash & 1) === 0 ? 1 : -1);
    }
  }
  const length = Math.hypot(...sums);
  // If a text has no words, or if they cancel each other out, the vector is zero. We can't scale that to length 1, so
  // give it some direction.
  if (length === 0) sums[0] = 1;
  return length === 0 ? sums : sums.map((sum) => sum / length);
}

/** Encodes the vector as 32-bit floats, which are little-endian on any machine. */
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.allocUnsafe(vector.length * 4);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4);
  return bytes.toString('base64');
}
