/**
 * Finds tools that are defined in the conversation instead of in `tools`: Anthropic's `tool_addition` blocks, and
 * OpenAI's `additional_tools` and `tool_search_output` items. A vendor bills its own tools there as well.
 */
import { type AddedTools, factsOf } from '../json/body-facts.ts';
import { callsOtherModel, hidesAscii, rejectBody } from '../json/body-members.ts';
import { knownRegionsOf, unknownPieces } from '../json/known-regions.ts';

const marks = ['"tool_addition"', '"additional_tools"', '"tool_search_output"'].map((mark) => Buffer.from(mark));
const escapedCharacter = /\\u00([0-7][0-9a-f])/gi;
const typeOrLimit = /"(?:type"\s*:\s*"([\w.:-]{1,100})"|max_uses"\s*:\s*(\d{1,9})\b)/g;
/**
 * A request has fewer types of blocks and tools, fewer of each, and fewer escapes, unless somebody wants to keep us
 * busy. Beyond these limits we assume that the conversation defines every tool.
 */
const maxTypes = 200;
const maxBlocks = 50_000;
const maxEscapes = 10_000;

/** We need the tools of a body once for each candidate. */
const foundTools = new WeakMap<Buffer, AddedTools | null>();

export function hasAddedTools(bytes: Buffer): boolean {
  return marks.some((mark) => bytes.includes(mark));
}

/**
 * Returns null if the conversation doesn't define tools. We don't parse it, so the types of other blocks are counted as
 * well.
 */
export function findAddedTools(body: Buffer): AddedTools | null {
  const facts = factsOf(body);
  if (facts !== undefined) return facts.addedTools;
  let found = foundTools.get(body);
  if (found === undefined) {
    found = searchTools(body);
    foundTools.set(body, found);
  }
  return found;
}

function searchTools(body: Buffer): AddedTools | null {
  const isHidden = hidesAscii(body);
  const isFound = knownRegionsOf(body).some(({ references }) => references.hasAddedTools) || unknownPieces(body).some(hasAddedTools);
  if (!isHidden && !isFound) return null;
  const text = isHidden ? decodeEscapes(body.toString('latin1')) : body.toString('latin1');
  if (text !== null && !isFound && !hasAddedTools(Buffer.from(text, 'latin1'))) return null;
  return text === null ? { counts: new Map(), maxUses: 0, isComplete: false } : countTypes(text);
}

function countTypes(text: string): AddedTools {
  const counts = new Map<string, number>();
  let blocks = 0;
  let maxUses = 0;
  for (const [, type, digits] of text.matchAll(typeOrLimit)) {
    blocks += 1;
    if (blocks > maxBlocks || counts.size > maxTypes) return { counts, maxUses, isComplete: false };
    if (type === undefined) maxUses = Math.max(maxUses, Number(digits));
    else counts.set(toToolName(type), (counts.get(toToolName(type)) ?? 0) + 1);
  }
  return { counts, maxUses, isComplete: true };
}

/** Throws `bad_json` if the conversation may define a tool that calls another model. */
export function rejectAddedModels(body: Buffer): void {
  const added = findAddedTools(body);
  if (added === null) return;
  const name = added.isComplete ? [...added.counts.keys()].find(callsOtherModel) : 'tools in the conversation';
  if (name !== undefined)
    rejectBody(`${name}: not allowed, because the key or its project restricts models, requires tags or has a cost ceiling`);
}

/** Returns how often a tool may be used that the conversation defines. `usual` applies unless a tool allows more. */
export function countAddedUses({ counts, maxUses, isComplete }: AddedTools, name: string, usual: number): number {
  return (counts.get(name) ?? (isComplete ? 0 : 1)) * Math.max(usual, maxUses);
}

/**
 * Strips the version from tool names, e.g. from `web_search_20250305` or `web_search_preview_2025_03_11`. The regular
 * expression takes quadratic time, so we leave long names as they are. No vendor has tools with such names.
 */
export function toToolName(type: string): string {
  return type.length > maxToolTypeLength ? type : type.replace(/(?:_\d+)+$/, '');
}

const maxToolTypeLength = 100;

/** Returns null if there are too many escapes. */
function decodeEscapes(text: string): string | null {
  let count = 0;
  for (let at = text.indexOf('\\u00'); at >= 0; at = text.indexOf('\\u00', at + 1)) {
    count += 1;
    if (count > maxEscapes) return null;
  }
  return text.replace(escapedCharacter, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
