/**
 * Describes the parts of a prompt that aren't messages. Text stays unchanged, and binary content is reduced to its
 * type, size and SHA-256. Unknown blocks are stored as JSON text, so a stored extra is never deeply nested.
 */
import { asObject, asString, isObject } from '../../core/json/narrow.ts';
import { toPostgresText } from '../../core/postgres-text.ts';
import { digestBytes, isBase64Character, parseDataUrl } from '../json/data-url.ts';
import { toJsonText } from '../json/json-text.ts';
import { stripRecalled } from './recalled-block.ts';

/**
 * A part of a prompt that isn't a message, such as a tool definition or an image. `type` is the role or block type that
 * the client sent. `PositionedExtra` adds the position in the prompt.
 */
export type PromptExtra =
  | { readonly kind: 'system' | 'tool' | 'tool_result' | 'thinking' | 'other'; readonly type: string; readonly text: string }
  | { readonly kind: 'binary'; readonly type: string; readonly bytes: number; readonly sha256: string; readonly media_type: string | null };

export function textExtra(kind: Exclude<PromptExtra['kind'], 'binary'>, type: string, text: string): PromptExtra {
  return { kind, type, text: toPostgresText(stripRecalled(text)) };
}

/** Describes base64 that nobody but the vendor can decode, such as redacted thinking or encrypted reasoning. */
export function opaqueExtra(type: string, data: string): PromptExtra {
  return { kind: 'binary', type, ...digestBytes(Buffer.from(data, 'base64')), media_type: null };
}

/**
 * The only fields that we store for a tool that the vendor runs. Other fields could contain credentials, e.g. headers,
 * addresses or the secrets of a sandbox.
 */
const hostedMembers = ['type', 'name', 'server_label', 'description'] as const;

/** Describes a function or a tool that the vendor runs. `type` is the name of the tool. */
export function toToolExtra(tool: unknown): PromptExtra {
  const { type, name, function: definition, ...rest } = asObject(tool);
  const isFunction = isObject(definition) || rest['input_schema'] !== undefined || type === 'function' || type === 'custom';
  const shown =
    isFunction || !isObject(tool) ? tool : Object.fromEntries(hostedMembers.map((key) => [key, asString(tool[key]) ?? undefined]));
  const label =
    asString(asObject(definition).name) ?? asString(asObject(rest['custom']).name) ?? asString(name) ?? asString(type) ?? 'tool';
  return textExtra('tool', toPostgresText(label), toJsonText(shown));
}

/**
 * Describes a block that's neither text nor a tool call, such as an image or a document, in the form in which we store
 * it.
 */
export function toExtras(block: unknown): PromptExtra[] {
  if (block === undefined || block === null) return [];
  const type = toPostgresText(asString(asObject(block).type) ?? asString(asObject(block).role) ?? 'unknown');
  const binaries: PromptExtra[] = [];
  const replaceBinary = (holder: unknown, key: string, text: string): string => {
    const content = parseBinary(holder, key, text);
    if (!content) return text;
    const digest = digestBytes(content.bytes);
    binaries.push({ kind: 'binary', type, ...digest, media_type: content.mediaType === null ? null : toPostgresText(content.mediaType) });
    return `sha256:${digest.sha256}`;
  };
  const jsonText = toJsonText(block, hasFewMembers(block) ? replaceBinary : undefined);
  // For images, audio and video we only store the digest. We also store the other fields of a document, because it may
  // have a title, and of an unknown block, because it may contain anything.
  return binaries.length > 0 && plainTypes.has(type) ? binaries : [...binaries, textExtra('other', type, jsonText)];
}

function hasFewMembers(block: unknown): boolean {
  const queue: unknown[] = [block];
  for (let at = 0; at < queue.length; at += 1) {
    const value = queue[at];
    if (typeof value !== 'object' || value === null) continue;
    const members: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (queue.length + members.length > maxMembers) return false;
    queue.push(...members);
  }
  return true;
}

const plainTypes = new Set(['image_url', 'input_image', 'image', 'input_audio', 'audio', 'video_url']);
/** Fields that always contain base64, whatever type the block has. */
const base64Keys = new Set(['file_data', 'b64_json', 'encrypted_content', 'bytesBase64Encoded']);
const minOpaqueLength = 1_024;
/**
 * If a block has more fields than this, we store it without replacing binary content. Checking a field takes
 * microseconds, but a block can have millions of them.
 */
const maxMembers = 300;

function parseBinary(holder: unknown, key: string, text: string): { bytes: Buffer; mediaType: string | null } | null {
  const url = parseDataUrl(text);
  if (url) return url;
  const { type, media_type: snake, mimeType: camel, mime_type: other, format } = asObject(holder);
  const mediaType = asString(snake) ?? asString(camel) ?? asString(other);
  const isData = key === 'data' && (type === 'base64' || typeof format === 'string' || (mediaType !== null && type !== 'text'));
  if (isData || base64Keys.has(key) || isOpaque(text)) {
    return { bytes: Buffer.from(text, 'base64'), mediaType: mediaType ?? (typeof format === 'string' ? `audio/${format}` : null) };
  }
  return null;
}

/** Recognizes binary content. Natural language never has this many base64 characters in a row. */
function isOpaque(text: string): boolean {
  if (text.length < minOpaqueLength) return false;
  for (let at = 0; at < text.length; at += 1) if (!isBase64Character(text.charCodeAt(at))) return false;
  return true;
}
