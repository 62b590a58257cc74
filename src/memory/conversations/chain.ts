/**
 * Links messages by hash, so we store each message once no matter how often clients resend their history.
 *
 * A message hash covers the role, text and tool calls. A part hash covers the message hash and the hash of the previous
 * part, so two equal part hashes mean that the whole histories are equal. Length prefixes make the encoding
 * unambiguous.
 */
import { hash as digest } from 'node:crypto';
import type { NormalMessage, PromptExtra } from '../../dialects/prompt/prompt.ts';

/** A SHA-256 as 64 hexadecimal digits. A string works as a map key and is cheaper than a Buffer. */
export type Sha256 = string;

export interface HashedMessage {
  readonly role: NormalMessage['role'];
  /** The hash of the message alone, regardless of its position. */
  readonly messageHash: Sha256;
  /** The number of characters in the text and tool calls. */
  readonly length: number;
  /** If we've seen the message before, this is a getter that only parses it when it's read. */
  readonly message: NormalMessage;
}

/** One link of a chain. Its hash covers everything up to and including this part. */
interface Link {
  readonly hash: Sha256;
  readonly parentHash: Sha256 | null;
}

export interface ChainPart extends HashedMessage, Link {}

/** A part of a prompt that isn't a message, such as a system prompt, a tool, a tool result or an image. */
export interface HashedExtra {
  readonly role: PromptExtra['kind'];
  readonly details: ExtraDetails;
  /** Null for binary content. */
  readonly textHash: Sha256 | null;
  /** Empty for binary content. If we've seen the text before, this is a getter that only parses it when it's read. */
  readonly text: string;
}

/** The details that we store, together with the position. */
export interface ExtraDetails {
  readonly type: string;
  readonly bytes?: number;
  readonly sha256?: string;
  readonly media_type?: string | null;
}

/** An extra that is linked to the previous one. `position` is the number of messages before it. */
export interface ExtraPart extends HashedExtra, Link {
  readonly position: number;
}

/**
 * Links `messages` into a chain. The first one follows the part whose hash is `after`, or starts a new chain if that's
 * null.
 */
export function chainMessages(messages: readonly NormalMessage[], after: Sha256 | null = null): ChainPart[] {
  return linkMessages(messages.map(toHashedMessage), after);
}

export function toHashedMessage(message: NormalMessage): HashedMessage {
  const length = message.toolCalls.reduce((sum, call) => sum + call.name.length + call.arguments.length, message.text.length);
  return { role: message.role, messageHash: hashMessage(message), length, message };
}

/** Like `chainMessages`, for messages that are already hashed. */
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

/** Like `linkMessages`, for extras. */
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

/** Hashes the scope of a conversation: its project, source and subject. The subject may be null. */
export function hashScope(projectId: string, source: string, subject: string | null): Sha256 {
  return hashText(`scope 1\n${[projectId, source, subject === null ? '-' : 'subject', subject ?? ''].map(prefixLength).join('')}`);
}

/** Returns a lookup key that includes the scope, so that a lookup can't find anything in another scope. */
export function toScopedKey(scope: Sha256, messageOrPart: Sha256): Sha256 {
  return hashBytes(scope + messageOrPart);
}

/**
 * Ignores surrounding white space and the style of line breaks, because clients trim streamed text. Arguments are
 * compared as JSON, because clients re-serialize them.
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
    return trimmed; // Models sometimes write invalid JSON, so we compare the text instead.
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

/** Hashes the concatenated bytes of one or two hashes. */
function hashBytes(hex: Sha256): Sha256 {
  const bytes = hex.length === 64 ? oneHash : twoHashes;
  bytes.write(hex, 'hex');
  return digest('sha256', bytes, 'hex');
}
