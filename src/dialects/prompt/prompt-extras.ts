/**
 * What is kept of the blocks of a prompt that are no messages: text as it is, binary content as type, size and SHA-256. Blocks that
 * nobody knows are kept as their JSON text, with binary content folded away, so that a stored extra is never deeply nested.
 */
import { asObject, asString } from '../../core/json/narrow.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { digestBytes, isBase64Character, parseDataUrl } from '../json/data-url.ts';
import { stripRecalled } from './recalled-block.ts';

/** An extra without its place. `type` is the role or block type under which it was sent. */
export type PromptExtra =
  | { readonly kind: 'system' | 'tool_result' | 'thinking' | 'other'; readonly type: string; readonly text: string }
  | { readonly kind: 'binary'; readonly type: string; readonly bytes: number; readonly sha256: string; readonly media_type: string | null };

export function textExtra(kind: 'system' | 'tool_result' | 'thinking' | 'other', type: string, text: string): PromptExtra {
  return { kind, type, text: toPostgresText(stripRecalled(text)) };
}

/** Base64 of which only the vendor knows the meaning: redacted thinking, encrypted reasoning. */
export function opaqueExtra(type: string, data: string): PromptExtra {
  return { kind: 'binary', type, ...digestBytes(Buffer.from(data, 'base64')), media_type: null };
}

/** A block that is neither text nor a tool call: an image, a document, something new. */
export function toExtras(block: unknown): PromptExtra[] {
  if (block === undefined || block === null) return [];
  const type = toPostgresText(asString(asObject(block).type) ?? asString(asObject(block).role) ?? 'unknown');
  const binaries: PromptExtra[] = [];
  const foldBinary = (holder: unknown, key: string, text: string): string => {
    const content = parseBinary(holder, key, text);
    if (!content) return text;
    const digest = digestBytes(content.bytes);
    binaries.push({ kind: 'binary', type, ...digest, media_type: content.mediaType });
    return `sha256:${digest.sha256}`;
  };
  const rest = toJsonText(block, hasFewMembers(block) ? foldBinary : undefined);
  // Of an image or a sound nothing else is worth keeping; a document may have a title, an unknown block anything.
  return binaries.length > 0 && plainTypes.has(type) ? binaries : [...binaries, textExtra('other', type, rest)];
}

function hasFewMembers(block: unknown): boolean {
  const found: unknown[] = [block];
  for (let at = 0; at < found.length; at += 1) {
    const value = found[at];
    if (typeof value !== 'object' || value === null) continue;
    const members: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (found.length + members.length > maxMembers) return false;
    found.push(...members);
  }
  return true;
}

/** JSON text of a parsed value with its strings mapped by `mapText`; empty when the value is nested too deeply to be written. */
export function toJsonText(value: unknown, mapText?: (holder: unknown, key: string, text: string) => string): string {
  try {
    if (!mapText) return JSON.stringify(value) ?? '';
    return (
      JSON.stringify(value, function (this: unknown, key: string, member: unknown) {
        return typeof member === 'string' ? mapText(this, key, member) : member;
      }) ?? ''
    );
  } catch (error) {
    if (error instanceof RangeError) return ''; // The writer is recursive, the reader is not.
    throw error;
  }
}

const plainTypes = new Set(['image_url', 'input_image', 'image', 'input_audio', 'audio', 'video_url']);
/** Members whose text is base64 wherever they stand. */
const base64Keys = new Set(['file_data', 'b64_json', 'encrypted_content', 'bytesBase64Encoded']);
const minOpaqueLength = 1_024;
/** Looking at each takes microseconds, and a block may have millions; larger ones are kept as they are. */
const maxMembers = 300;

function parseBinary(holder: unknown, key: string, text: string): { bytes: Buffer; mediaType: string | null } | null {
  const url = parseDataUrl(text);
  if (url) return url;
  const { type, media_type: snake, mimeType: camel, mime_type: other, format } = asObject(holder);
  const named = asString(snake) ?? asString(camel) ?? asString(other);
  const isData = key === 'data' && (type === 'base64' || typeof format === 'string' || (named !== null && type !== 'text'));
  if (isData || base64Keys.has(key) || isOpaque(text)) {
    return { bytes: Buffer.from(text, 'base64'), mediaType: named ?? (typeof format === 'string' ? `audio/${format}` : null) };
  }
  return null;
}

/** Long, and nothing but base64: no text that anybody wrote. */
function isOpaque(text: string): boolean {
  if (text.length < minOpaqueLength) return false;
  for (let at = 0; at < text.length; at += 1) if (!isBase64Character(text.charCodeAt(at))) return false;
  return true;
}
