/** Searches a body for anything besides the length of the prompt that increases the vendor's bill. */
import type { TextRoute } from '../../core/call.ts';
import { factsOf } from '../json/body-facts.ts';
import { knownRegionsOf, type References, unknownBytes } from '../json/known-regions.ts';

/** Searching for a buffer is faster than searching for a string. */
const cacheMark = Buffer.from('"cache_control"');
const typeMark = Buffer.from('"type"');
/**
 * Matches fields and part types that refer to input outside the body. Files are included, because their pages may be
 * compressed.
 */
const reference = /"(?:file_id|file_url|file_data|video_url|audio_url|document_url|item_reference)"|"(?:input_audio|data)"\s*:\s*"https?:/;
/**
 * Matches an object that only has an id. On the responses route, this is a reference to an item, because the item's
 * type is optional.
 */
const itemById = /\{\s*"id"\s*:\s*"[^"]*"\s*\}/;
const documentType = /"type"\s*:\s*"document"/;
/** Matches all document sources except plain text. */
const documentSource = /"type"\s*:\s*"(?:url|file|base64)"/;

export function findReferences(bytes: Buffer): References {
  // It's faster to run one regular expression over a string than to search the bytes for each name (measured).
  const text = bytes.toString('latin1');
  return {
    hasTypes: bytes.includes(typeMark),
    hasReference: reference.test(text),
    hasItemById: itemById.test(text),
    hasDocument: documentType.test(text),
    hasDocumentSource: documentSource.test(text),
    hasCacheMark: bytes.includes(cacheMark),
  };
}

/**
 * Returns true if the vendor has to read input that isn't in the body, such as a file, media at a URL, or an item of an
 * earlier response. Also true for a document inside the body, because even a small one can have many pages.
 */
export function refersElsewhere(body: Buffer, route: TextRoute): boolean {
  const known = factsOf(body)?.refersElsewhere;
  if (known !== undefined) return known;
  const regions = knownRegionsOf(body);
  // If all messages are plain strings, the body has no `type` fields.
  if (regions.length === 0 && route !== 'responses' && !body.includes(typeMark)) return false;
  const found = [...regions.map(({ references }) => references), findReferences(unknownBytes(body))];
  const has = (name: keyof References): boolean => found.some((references) => references[name]);
  if (route === 'responses') return has('hasReference') || has('hasItemById') || (has('hasDocument') && has('hasDocumentSource'));
  return has('hasTypes') && (has('hasReference') || (has('hasDocument') && has('hasDocumentSource')));
}

/** Returns true if the body mentions `cache_control`, with which callers ask the vendor to cache the prompt. */
export function mentionsCacheControl(body: Buffer): boolean {
  const known = factsOf(body)?.mentionsCacheControl;
  if (known !== undefined) return known;
  return knownRegionsOf(body).some(({ references }) => references.hasCacheMark) || unknownBytes(body).includes(cacheMark);
}
