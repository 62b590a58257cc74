/**
 * Removes thinking blocks without a signature from the history of a messages request. They come from chat vendors,
 * whose reasoning isn't signed. A model that checks signatures would reject the whole request, so the conversation
 * couldn't continue with a different vendor.
 */
import { type BodySpans, cutElements, type Span, type Splice, scanElements, scanMembers } from '../../core/json/spans.ts';
import { skipSpace } from '../../core/json/syntax.ts';

/** Checks whether the model verifies the signature of thinking blocks. All Claude models do, whoever serves them. */
export function checksSignatures(vendorModel: string): boolean {
  return vendorModel.includes('claude');
}

/**
 * Returns the splices that remove thinking blocks without a signature. Messages that contain nothing else are removed
 * as well. Most bodies don't have any unsigned thinking, and we can tell that without scanning them.
 */
export function omitUnsignedThinking(body: Buffer, { members }: BodySpans): Splice[] {
  const messages = members.get('messages');
  if (messages?.kind !== 'array' || !mayHoldUnsigned(body.subarray(messages.value.start, messages.value.end))) return [];
  const all = [...scanElements(body, messages.value.start)];
  const found = all.map(({ kind, value }) => (kind === 'object' ? findUnsigned(body, value) : nothing));
  const isEmptied = found.map(
    ({ blocks, unsigned }) => unsigned.length > 0 && unsigned.every(Boolean) && blocks.length === unsigned.length,
  );
  return [
    ...cutElements(
      all.map(({ value }) => value),
      isEmptied,
    ),
    ...found.flatMap(({ blocks, unsigned }, index) => (isEmptied[index] ? [] : cutElements(blocks, unsigned))),
  ];
}

interface Found {
  readonly blocks: readonly Span[];
  /** For each block, true if it's thinking without a signature. */
  readonly unsigned: readonly boolean[];
}

const nothing: Found = { blocks: [], unsigned: [] };
const messageKeys = new Set(['content']);
const blockKeys = new Set(['type', 'signature']);

function findUnsigned(body: Buffer, message: Span): Found {
  const content = scanMembers(body, message.start, messageKeys).members.get('content');
  if (content?.kind !== 'array') return nothing;
  const blocks = [...scanElements(body, content.value.start)];
  return {
    blocks: blocks.map(({ value }) => value),
    unsigned: blocks.map(({ kind, value }) => kind === 'object' && isUnsigned(body, value)),
  };
}

function isUnsigned(body: Buffer, block: Span): boolean {
  const { members } = scanMembers(body, block.start, blockKeys);
  const type = members.get('type');
  if (type === undefined || body.toString('latin1', type.value.start, type.value.end) !== '"thinking"') return false;
  const signature = members.get('signature');
  return signature?.kind !== 'string' || signature.value.end - signature.value.start === 2;
}

/**
 * Checks whether the text could contain a thinking block without a signature, i.e. whether there are more `"thinking"`
 * values than non-empty signatures. We use `indexOf`, because scanning every body that has thinking would be as slow as
 * parsing it.
 */
function mayHoldUnsigned(bytes: Buffer): boolean {
  const isBlock = (at: number): boolean => bytes[skipSpace(bytes, at)] !== 0x3a; // skip keys
  const blocks = count(bytes, '"thinking"', isBlock);
  return blocks > 0 && blocks > count(bytes, '"signature"', (at) => hasText(bytes, at));
}

function hasText(bytes: Buffer, afterKey: number): boolean {
  const colon = skipSpace(bytes, afterKey);
  if (bytes[colon] !== 0x3a) return false;
  const value = skipSpace(bytes, colon + 1);
  return bytes[value] === 0x22 && bytes[value + 1] !== 0x22;
}

function count(bytes: Buffer, text: string, matches: (end: number) => boolean): number {
  let found = 0;
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + text.length)) if (matches(at + text.length)) found += 1;
  return found;
}
