/**
 * Finds tools that are defined in the conversation instead of in `tools`: Anthropic's `tool_addition` blocks, and
 * OpenAI's `additional_tools` and `tool_search_output` items. A vendor bills its own tools there as well.
 */

import { factsOf } from '../json/body-facts.ts';
import { hidesAscii, rejectBody } from '../json/body-members.ts';
import { knownRegionsOf, unknownPieces } from '../json/known-regions.ts';

const marks = ['"tool_addition"', '"additional_tools"', '"tool_search_output"'].map((mark) => Buffer.from(mark));
const escapedCharacter = /\\u00([0-7][0-9a-f])/gi;
const toolType = /"type"\s*:\s*"([\w.:-]{1,100})"/g;
const maxUses = /"max_uses"\s*:\s*(\d{1,9})\b/g;

export function hasAddedTools(bytes: Buffer): boolean {
  return marks.some((mark) => bytes.includes(mark));
}

/** Returns true if the conversation may define tools. That includes bodies with escaped letters, which could hide them. */
export function mayAddTools(body: Buffer): boolean {
  const known = factsOf(body)?.mayAddTools;
  if (known !== undefined) return known;
  return (
    hidesAscii(body) || knownRegionsOf(body).some(({ references }) => references.hasAddedTools) || unknownPieces(body).some(hasAddedTools)
  );
}

/** Throws `bad_json` if the conversation defines a tool that calls another model. */
export function rejectAddedModels(body: Buffer): void {
  const type = listAddedTypes(body).find((name) => name.startsWith('advisor_') || name.startsWith('openrouter:'));
  if (type !== undefined)
    rejectBody(`${type}: not allowed, because the key or its project restricts models, requires tags or has a cost ceiling`);
}

/**
 * Returns the types of all tools that the conversation may define, each with the number of uses that we have to expect.
 * The text isn't parsed, so the types of other blocks are among them. `usual` applies unless a tool allows more.
 */
export function listAddedTools(body: Buffer, usual: number): readonly { readonly type: string; readonly uses: number }[] {
  const types = listAddedTypes(body);
  if (types.length === 0) return [];
  const allowed = [...textOf(body).matchAll(maxUses)].map(([, digits]) => Number(digits));
  const uses = allowed.reduce((most, each) => Math.max(most, each), usual);
  return types.map((type) => ({ type, uses }));
}

function listAddedTypes(body: Buffer): readonly string[] {
  if (!mayAddTools(body)) return [];
  const text = textOf(body);
  if (!hasAddedTools(Buffer.from(text, 'latin1'))) return [];
  return [...text.matchAll(toolType)].map(([, type = '']) => type);
}

function textOf(body: Buffer): string {
  return body.toString('latin1').replace(escapedCharacter, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
