/** Searches bodies for what changes the vendor's bill besides the length of the prompt. */
import type { TextRoute } from '../../core/call.ts';
import { factsOf } from '../json/body-facts.ts';
import { knownRegionsOf, type References, unknownBytes } from '../json/known-regions.ts';

/** These are buffers because searching for bytes is faster than searching for a string. */
const cacheMark = Buffer.from('"cache_control"');
const typeMark = Buffer.from('"type"');
/**
 * Matches members and part types that refer to input outside the body. Files match too, because their pages may be
 * compressed.
 */
const reference = /"(?:file_id|file_url|file_data|video_url|audio_url|document_url|item_reference)"|"(?:input_audio|data)"\s*:\s*"https?:/;
/** Matches an item of `/v1/responses` that has only an id, because its type is optional. */
const itemById = /\{\s*"id"\s*:\s*"[^"]*"\s*\}/;
const documentType = /"type"\s*:\s*"document"/;
/** Matches the document sources other than plain text. */
const documentSource = /"type"\s*:\s*"(?:url|file|base64)"/;

export function findReferences(bytes: Buffer): References {
  // One regex pass over a string is faster than searching the bytes for each name (measured).
  const text = bytes.toString('latin1');
  return {
    hasTypes: bytes.includes(typeMark),
    hasReference: reference.test(text),
    hasItemById: itemById.test(text),
    hasDocument: documentType.test(text),
    hasDocumentSource: documentSource.test(text),
  };
}

/**
 * Reports whether parts of the body make the vendor read input that isn't in the body, such as a file, media at a URL,
 * or an item of an earlier response. It's also true for a document in the body, because even a small one may have many
 * pages.
 */
export function refersElsewhere(body: Buffer, route: TextRoute): boolean {
  const known = factsOf(body)?.refersElsewhere;
  if (known !== undefined) return known;
  const regions = knownRegionsOf(body);
  // Messages whose content is a plain string have no `type` members.
  if (regions.length === 0 && route !== 'responses' && !body.includes(typeMark)) return false;
  const found = [...regions.map(({ references }) => references), findReferences(unknownBytes(body))];
  const has = (name: keyof References): boolean => found.some((references) => references[name]);
  if (route === 'responses') return has('hasReference') || has('hasItemById') || (has('hasDocument') && has('hasDocumentSource'));
  return has('hasTypes') && (has('hasReference') || (has('hasDocument') && has('hasDocumentSource')));
}

/** Reports whether the caller may ask the vendor to keep the prompt in its cache. */
export function mentionsCacheControl(body: Buffer): boolean {
  return factsOf(body)?.mentionsCacheControl ?? body.includes(cacheMark);
}
