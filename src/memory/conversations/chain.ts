/**
 * Links messages by hash, so that each is stored once however often clients repeat their history.
 *
 * A message hash covers role, text and tool calls; a part hash covers the message hash and the hash of the preceding part, so equal part
 * hashes mean equal histories. Length prefixes make the encoding unambiguous.
 */
import { hash as digest } from 'node:crypto';
import type { NormalMessage, PromptExtra } from '../../dialects/prompt/prompt.ts';

/** A SHA-256 in 64 hexadecimal digits: a map key as it is, and cheaper than a Buffer. */
export type Sha256 = string;

export interface HashedMessage {
  readonly role: NormalMessage['role'];
  /** Hash of the message alone, independent of its position. */
  readonly messageHash: Sha256;
  /** Characters of the text and the tool calls. */
  readonly length: number;
  /** If the message was seen before, it is parsed only when this is read. */
  readonly message: NormalMessage;
}

/** A part of a chain. The hash covers the part and all before it. */
interface Link {
  readonly hash: Sha256;
  readonly parentHash: Sha256 | null;
}

/** A message linked to its predecessor. */
export interface ChainPart extends HashedMessage, Link {}

/** A part of a prompt that is no message: a system prompt, a tool, a tool result, an image. */
export interface HashedExtra {
  readonly role: PromptExtra['kind'];
  readonly details: ExtraDetails;
  /** Null for binary content. */
  readonly textHash: Sha256 | null;
  /** Empty for binary content. If the text was seen before, it is parsed only when this is read. */
  readonly text: string;
}

/** As it is stored, with the position. */
export interface ExtraDetails {
  readonly type: string;
  readonly bytes?: number;
  readonly sha256?: string;
  readonly media_type?: string | null;
}

/** An extra linked to its predecessor. `position` counts the messages before it. */
export interface ExtraPart extends HashedExtra, Link {
  readonly position: number;
}

/** Links `messages` to each other, and the first of them to the part with the hash `after`; null when it starts a chain. */
export function chainMessages(messages: readonly NormalMessage[], after: Sha256 | null = null): ChainPart[] {
  return linkMessages(messages.map(toHashedMessage), after);
}

export function toHashedMessage(message: NormalMessage): HashedMessage {
  const length = message.toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, message.text.length);
  return { role: message.role, messageHash: hashMessage(message), length, message };
}

/** As `chainMessages`, of messages whose hashes are known. */
export function linkMessages(messages: readonly HashedMessage[], after: Sha256 | null = null): ChainPart[] {
  const parts: ChainPart[] = [];
  let parentHash = after;
  for (const source of messages) {
    const { role, messageHash, length } = source;
    const hash: Sha256 = parentHash === null ? hashBytes(messageHash) : hashBytes(parentHash + messageHash);
    parts.push({
      role,
      messageHash,
      length,
      hash,
      parentHash,
      get message() {
        return source.message;
      },
    });
    parentHash = hash;
  }
  return parts;
}

export function toHashedExtra(extra: PromptExtra): HashedExtra {
  if (extra.kind !== 'binary') return { role: extra.kind, details: { type: extra.type }, textHash: hashText(extra.text), text: extra.text };
  const { kind, ...details } = extra;
  return { role: kind, details, textHash: null, text: '' };
}

/** As `linkMessages`, of extras. */
export function linkExtras(
  extras: readonly { readonly position: number; readonly extra: HashedExtra }[],
  after: Sha256 | null = null,
): ExtraPart[] {
  const parts: ExtraPart[] = [];
  let parentHash = after;
  for (const { position, extra } of extras) {
    const { role, details, textHash } = extra;
    const { type, bytes, sha256, media_type } = details;
    const hash: Sha256 = hashText(`extra 1\n${JSON.stringify([parentHash, position, role, textHash, type, bytes, sha256, media_type])}`);
    parts.push({
      role,
      details,
      textHash,
      hash,
      parentHash,
      position,
      get text() {
        return extra.text;
      },
    });
    parentHash = hash;
  }
  return parts;
}

/** Scope of a conversation: project, source and subject (null for none). */
export function hashScope(projectId: string, source: string, subject: string | null): Sha256 {
  return hashText(`scope 1\n${[projectId, source, subject === null ? '-' : 'subject', subject ?? ''].map(prefixLength).join('')}`);
}

/** Lookup key of a hash; includes the scope, so a lookup never leaves it. */
export function toScopedKey(scope: Sha256, messageOrPart: Sha256): Sha256 {
  return hashBytes(scope + messageOrPart);
}

/**
 * Ignores surrounding white space and the kind of line ends, because clients trim streamed text, and compares arguments as JSON, because
 * clients re-serialize them.
 */
function hashMessage({ role, text, toolCalls }: NormalMessage): Sha256 {
  let calls = '';
  for (const call of toolCalls) calls += prefixLength(call.name) + prefixLength(normalizeArguments(call.arguments));
  return hashText(`message 1\n${prefixLength(role)}${prefixLength(normalizeText(text))}${calls}`);
}

function normalizeText(text: string): string {
  return (text.includes('\r') ? text.replaceAll(/\r\n?/g, '\n') : text).trim();
}

function normalizeArguments(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '{}';
  try {
    return JSON.stringify(JSON.parse(trimmed));
  } catch {
    return trimmed; // Models sometimes write invalid JSON; then the text is compared.
  }
}

function prefixLength(field: string): string {
  return `${field.length}:${field}`;
}

export function hashText(text: string): Sha256 {
  return digest('sha256', text, 'hex');
}

const oneHash = Buffer.alloc(32);
const twoHashes = Buffer.alloc(64);

/** Hashes the bytes of one or two hashes. */
function hashBytes(hex: Sha256): Sha256 {
  const bytes = hex.length === 64 ? oneHash : twoHashes;
  bytes.write(hex, 'hex');
  return digest('sha256', bytes, 'hex');
}
