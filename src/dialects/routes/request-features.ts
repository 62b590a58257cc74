/**
 * Detects features of a chat or messages body for the `auto` classifier, without parsing it.
 *
 * We only search the first 256 KiB of a field, using Node's native search. This takes 7 µs for a short body and 0.6 ms
 * in the worst case (measured). Anything longer counts as a large request regardless of its contents. Quotes inside
 * JSON strings are escaped, so `"image"` with its quotes can't occur in the text of a message.
 */
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { skipSpace } from '../../core/json/syntax.ts';
import { knownRegionsOf, unknownPieces } from '../json/known-regions.ts';
import { trimmedEnd } from '../json/parameter-digest.ts';

export interface RequestFeatures {
  /** The size of the messages and the system prompt, including JSON syntax and the base64 of images. */
  readonly inputBytes: number;
  /** At most 1,000, because counting stops there. */
  readonly messages: number;
  readonly hasTools: boolean;
  readonly hasImages: boolean;
  readonly hasCode: boolean;
}

const maxScannedBytes = 256 * 1024;
const maxCount = 1_000;

const colon = 0x3a;
const closeBracket = 0x5d;

/**
 * Values of `type` for image parts. `input_image` belongs to the responses API, but some clients also send it on chat
 * and messages.
 */
const imageTypes: readonly string[] = ['"image_url"', '"image"', '"input_image"'];
/**
 * A substring of all image types, so a single search tells us whether there could be any. We leave out the `i`, because
 * the native search stops at each occurrence of the first letter, and `i` is frequent in text.
 */
const imageMark = Buffer.from('mage');

export function detectFeatures(body: Buffer, { members }: BodySpans): RequestFeatures {
  const messages = sliceMember(body, members.get('messages'));
  const system = sliceMember(body, members.get('system'));
  const searched = messages.subarray(0, maxScannedBytes);
  return {
    inputBytes: messages.length + system.length,
    messages: countKeys(searched, '"role"'),
    hasTools: [members.get('tools'), members.get('functions')].some((member) => hasElements(body, member)),
    hasImages: imageTypes.some((type) => countValues(searched, type) > 0),
    hasCode: searched.includes('```') || system.subarray(0, maxScannedBytes).includes('```'),
  };
}

export function countImages(body: Buffer): number {
  const inRegions = knownRegionsOf(body).reduce((sum, { images }) => sum + images, 0);
  return unknownPieces(body).reduce((sum, piece) => sum + countImageParts(piece), inRegions);
}

/** Counts the image parts in a body or in a part of it, up to 1,000 per type. */
export function countImageParts(body: Buffer): number {
  // Most bodies have no images, so search for the common part of all types first. Use a buffer, because that's faster
  // than searching for a string.
  return body.includes(imageMark) ? imageTypes.reduce((sum, type) => sum + countValues(body, type), 0) : 0;
}

function sliceMember(body: Buffer, member: Member | undefined): Buffer {
  return member ? body.subarray(member.value.start, member.value.end) : body.subarray(0, 0);
}

function hasElements(body: Buffer, member: Member | undefined): boolean {
  if (member?.kind !== 'array') return false;
  return body[skipSpace(body, member.value.start + 1)] !== closeBracket;
}

/**
 * Counts how often `quoted`, a string in quotes, follows a colon and thus is a value rather than a key or a piece of
 * text.
 */
function countValues(bytes: Buffer, quoted: string): number {
  return countMatches(bytes, quoted, (at) => bytes[trimmedEnd(bytes, at) - 1] === colon);
}

/** Counts how often `quoted`, a string in quotes, is followed by a colon, i.e. is used as a key. */
function countKeys(bytes: Buffer, quoted: string): number {
  return countMatches(bytes, quoted, (at) => bytes[skipSpace(bytes, at + quoted.length)] === colon);
}

/** Counts the occurrences of `text` for which `matches` returns true, up to 1,000. */
function countMatches(bytes: Buffer, text: string, matches: (at: number) => boolean): number {
  let count = 0;
  let at = bytes.indexOf(text);
  for (let seen = 0; at >= 0; seen += 1) {
    if (seen === maxCount) return maxCount;
    if (matches(at)) count += 1;
    at = bytes.indexOf(text, at + text.length);
  }
  return count;
}
