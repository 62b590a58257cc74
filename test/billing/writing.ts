/** Functions that the writers of all dialects share. */
import type { Choice, Generation } from './generation.ts';
import { outputTokens } from './generation.ts';

/** A part of a stream that the vendor sends in a single write. */
export interface Piece {
  readonly text: string;
  /** How many output tokens the text contains. */
  readonly tokens: number;
  /** Set if the piece contains the final token counts. */
  readonly hasUsage?: true;
}

export interface DialectWriter {
  readonly stream: (generation: Generation, id: string) => Iterable<Piece>;
  readonly json: (generation: Generation, id: string) => object;
}

/**
 * Returns text with four characters per token, because the gateway's estimates assume that ratio. The text starts with
 * `opening`.
 */
export function textOf(tokens: number, opening = ''): string {
  return opening + ' abc'.repeat(Math.max(0, tokens - Math.ceil(opening.length / 4)));
}

export function* chunksOf(tokens: number, size: number, opening = ''): Iterable<{ text: string; tokens: number }> {
  for (let rest = tokens; rest > 0; rest -= size) {
    const chunk = Math.min(size, rest);
    yield { text: textOf(chunk, rest === tokens ? opening : ''), tokens: chunk };
  }
}

export function outputOf({ choices }: Generation): number {
  return choices.reduce((sum, choice) => sum + outputTokens(choice), 0);
}

export function reasoningOf({ choices }: Generation): number {
  return choices.reduce((sum, { hidden, reasoning }) => sum + hidden + reasoning, 0);
}

export function inputOf({ input: { input, cachedInput, cacheWrite, cacheWrite1h } }: Generation): number {
  return input + cachedInput + cacheWrite + cacheWrite1h;
}

/** Returns a tool call's arguments as JSON text. Its length matches the number of argument tokens. */
export function argumentText({ argument }: Choice): string {
  return JSON.stringify({ a: textOf(argument).slice('{"a":""}'.length) });
}

export const toolName = 'save';

export function event(name: string, data: object): string {
  return `${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}
