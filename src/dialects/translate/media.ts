/**
 * Translates images and documents. The chat dialect represents them as URLs (including data URLs), and the messages
 * dialect as `source` objects.
 */
import { asString, type JsonObject } from '../../core/json/narrow.ts';
import { rejectUntranslatable } from '../contract/untranslatable.ts';
import { asLosslessObject, asNonEmptyString, isLosslessObject, omitNullish } from '../json/lossless-json.ts';

const imageTypes = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function toImageBlock(part: JsonObject): JsonObject {
  const url =
    asString(asLosslessObject(part.image_url).url) ?? asString(part.image_url) ?? rejectUntranslatable('an image must have a URL');
  if (isWebAddress(url)) return { type: 'image', source: { type: 'url', url } };
  const content = parseBase64Url(url) ?? rejectUntranslatable('the URL of an image must be a web URL or a base64 data URL');
  const mediaType = content.mediaType === 'image/jpg' ? 'image/jpeg' : content.mediaType;
  if (!imageTypes.has(mediaType)) rejectUntranslatable('an image must be PNG, JPEG, GIF or WebP');
  return { type: 'image', source: { type: 'base64', media_type: mediaType, data: content.data } };
}

export function toImagePart(block: JsonObject): JsonObject {
  const { type, url, media_type: mediaType, data } = asLosslessObject(block.source);
  if (type === 'url' && typeof url === 'string') return { type: 'image_url', image_url: { url } };
  if (type === 'base64' && typeof mediaType === 'string' && typeof data === 'string') {
    return { type: 'image_url', image_url: { url: `data:${mediaType};base64,${data}` } };
  }
  return rejectUntranslatable('an image must be sent inline or as a web URL');
}

export function toDocumentBlock(part: JsonObject): JsonObject {
  const { file_data: fileData, filename } = asLosslessObject(part.file);
  const content = parseBase64Url(
    asString(fileData) ?? rejectUntranslatable('a file must be sent inline; files stored at a vendor are not supported'),
  );
  const title = omitNullish({ title: asNonEmptyString(filename) });
  switch (content?.mediaType) {
    case 'application/pdf':
      return { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: content.data }, ...title };
    case 'text/plain': {
      const data = Buffer.from(content.data, 'base64').toString('utf8');
      return { type: 'document', source: { type: 'text', media_type: 'text/plain', data }, ...title };
    }
    default:
      return rejectUntranslatable('a file must be PDF or plain text in a base64 data URL');
  }
}

/**
 * Converts a document block to chat parts. `blocksToParts` translates the contents of a document that consists of
 * blocks.
 */
export function toDocumentParts(block: JsonObject, blocksToParts: (content: unknown) => readonly JsonObject[]): readonly JsonObject[] {
  const { type, media_type: mediaType, data, content } = asLosslessObject(block.source);
  const title = asNonEmptyString(block.title);
  const context = asNonEmptyString(block.context);
  if (type === 'base64' && typeof mediaType === 'string' && typeof data === 'string') {
    const file = { filename: title ?? 'document.pdf', file_data: `data:${mediaType};base64,${data}` };
    return [...textParts(context), { type: 'file', file }];
  }
  if (type === 'text' && typeof data === 'string') return textParts(title, context, data);
  if (type === 'content') return [...textParts(title, context), ...blocksToParts(content)];
  return rejectUntranslatable('a document must be sent inline; URLs and stored files are not supported');
}

function textParts(...texts: readonly (string | null)[]): JsonObject[] {
  const filled = texts.filter((text) => text !== null && text !== '');
  return filled.length === 0 ? [] : [{ type: 'text', text: filled.join('\n\n') }];
}

/** Returns the part's `cache_control`. Only messages vendors support it, but chat callers can send it too. */
export function getCacheControl(part: JsonObject): JsonObject {
  return isLosslessObject(part.cache_control) ? { cache_control: part.cache_control } : {};
}

function isWebAddress(url: string): boolean {
  const start = url.slice(0, 8).toLowerCase();
  return start === 'https://' || start.startsWith('http://');
}

/**
 * Splits a data URL into its media type and base64 text. The text isn't decoded, because images can be several
 * megabytes.
 */
function parseBase64Url(url: string): { mediaType: string; data: string } | null {
  if (url.slice(0, 5).toLowerCase() !== 'data:') return null;
  const comma = url.indexOf(',');
  const [mediaType = '', ...parameters] = url.slice(5, Math.max(5, comma)).toLowerCase().split(';');
  if (comma < 0 || parameters.at(-1)?.trim() !== 'base64') return null;
  return { mediaType: mediaType.trim(), data: url.slice(comma + 1) };
}
