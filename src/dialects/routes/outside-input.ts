/**
 * Finds out whether a body refers to input outside of it, or asks the vendor to cache the prompt. Both can make a call
 * more expensive than the length of its prompt suggests.
 */
import type { TextRoute } from '../../core/call.ts';
import { factsOf } from '../json/body-facts.ts';
import { knownRegionsOf, type References, unknownPieces } from '../json/known-regions.ts';

/** Use buffers, because searching for a buffer is faster than searching for a string. */
const cacheMark = Buffer.from('"cache_control"');
const typeMark = Buffer.from('"type"');
/**
 * Fields and part types that refer to input outside the body. We include `file_data` even though the file is in the
 * body, because its pages may be compressed, so a small file can have many of them.
 */
const reference = /"(?:file_id|file_url|file_data|video_url|audio_url|document_url|item_reference)"|"(?:input_audio|data)"\s*:\s*"https?:/;
/**
 * Matches an object with nothing but an id. On the responses route that's a reference to an earlier item, because the
 * `type` of an item is optional.
 */
const itemById = /\{\s*"id"\s*:\s*"[^"]*"\s*\}/;
const documentType = /"type"\s*:\s*"document"/;
/** All document sources except plain text. */
const documentSource = /"type"\s*:\s*"(?:url|file|base64)"/;

export function findReferences(bytes: Buffer): References {
  // One regular expression over a string is faster than searching the bytes for each name (measured).
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
 * Checks whether the vendor has to read input that isn't in the body, such as a file, media at a URL, or an item of an
 * earlier response. Documents count too even if they're in the body, because a small one can have many pages.
 */
export function refersElsewhere(body: Buffer, route: TextRoute): boolean {
  const known = factsOf(body)?.refersElsewhere;
  if (known !== undefined) return known;
  const regions = knownRegionsOf(body);
  // A body whose messages are all plain strings has no `type` fields, so it can't refer to anything.
  if (regions.length === 0 && route !== 'responses' && !body.includes(typeMark)) return false;
  const found = [...regions.map(({ references }) => references), ...unknownPieces(body).map(findReferences)];
  const has = (name: keyof References): boolean => found.some((references) => references[name]);
  if (route === 'responses') return has('hasReference') || has('hasItemById') || (has('hasDocument') && has('hasDocumentSource'));
  return has('hasTypes') && (has('hasReference') || (has('hasDocument') && has('hasDocumentSource')));
}

/** Checks whether the body mentions `cache_control`, which asks the vendor to cache the prompt. */
export function mentionsCacheControl(body: Buffer): boolean {
  const known = factsOf(body)?.mentionsCacheControl;
  if (known !== undefined) return known;
  return (
    knownRegionsOf(body).some(({ references }) => references.hasCacheMark) || unknownPieces(body).some((piece) => piece.includes(cacheMark))
  );
}
