/**
 * Links messages by hash, so that each message is only stored once, no matter how often clients resend their history.
 *
 * The hash of a message covers its role, text and tool calls. The hash of a part covers the hash of its message and the
 * hash of the previous part. If two parts have the same hash, their whole histories are equal. Length prefixes make the
 * encoding unambiguous.
 */
import { hash as digest } from 'node:crypto';
import { parseJsonOrThrow } from '../../core/json/parse.ts';
import type { NormalMessage, PromptExtra } from '../../dialects/prompt/prompt.ts';

/** A SHA-256 as 64 hexadecimal digits. A string works as a map key and is cheaper than a Buffer. */
export type Sha256 = string;

export interface HashedMessage {
  readonly role: NormalMessage['role'];
  /** Hash of the message alone, so it's the same wherever the message occurs. */
  readonly messageHash: Sha256;
  /** The number of characters in the message's text and tool calls. */
  readonly length: number;
  /**
   * The message itself. If we've seen it in an earlier request, this is a getter that doesn't parse the JSON until
   * somebody reads it.
   */
  readonly message: NormalMessage;
}

/** Links a part to its predecessor. The hash covers this part and all parts before it. */
interface Link {
  readonly hash: Sha256;
  readonly parentHash: Sha256 | null;
}

export interface ChainPart extends HashedMessage, Link {}

/** Anything in a prompt that isn't a message, e.g. a system prompt, a tool, a tool result or an image. */
export interface HashedExtra {
  readonly role: PromptExtra['kind'];
  readonly details: ExtraDetails;
  /** Null if the content is binary. */
  readonly textHash: Sha256 | null;
  /**
   * The text of the extra, or an empty string for binary content. If we've seen the extra in an earlier request, this
   * is a getter that doesn't parse the JSON until somebody reads it.
   */
  readonly text: string;
}

export interface ExtraDetails {
  readonly type: string;
  readonly bytes?: number;
  readonly sha256?: string;
  readonly media_type?: string | null;
}

/**
 * A part of a chain that isn't a message, e.g. a system prompt or a tool result. `position` is the number of messages
 * that come before it in the prompt.
 */
export interface ExtraPart extends HashedExtra, Link {
  readonly position: number;
}

/**
 * Links `messages` into a chain, in which each part contains the hash of the previous one. The chain continues after
 * the part with the hash `after`. If that's null, a new chain begins.
 */
export function chainMessages(messages: readonly NormalMessage[], after: Sha256 | null = null): ChainPart[] {
  const parts: ChainPart[] = [];
  let parentHash = after;
  for (const message of messages) {
    const { role } = message;
    const messageHash = hashMessage(message);
    const hash = hashLink(messageHash, parentHash);
    parts.push({ role, messageHash, length: lengthOf(message), message, hash, parentHash });
    parentHash = hash;
  }
  return parts;
}

export function toHashedMessage(message: NormalMessage): HashedMessage {
  return { role: message.role, messageHash: hashMessage(message), length: lengthOf(message), message };
}

function lengthOf({ text, toolCalls }: NormalMessage): number {
  let length = text.length;
  for (const call of toolCalls) length += call.name.length + call.arguments.length;
  return length;
}

function hashLink(messageHash: Sha256, parentHash: Sha256 | null): Sha256 {
  return hashBytes(parentHash === null ? messageHash : parentHash + messageHash);
}

/** Like `chainMessages`, but takes messages that are already hashed. */
export function linkMessages(messages: readonly HashedMessage[], after: Sha256 | null = null): ChainPart[] {
  const parts: ChainPart[] = [];
  let parentHash = after;
  for (const source of messages) {
    const hash = hashLink(source.messageHash, parentHash);
    parts.push(new LinkedMessage(source, { hash, parentHash }, () => source));
    parentHash = hash;
  }
  return parts;
}

/**
 * A message of a chain whose text is only read when somebody needs it. We use a class, because a long history has
 * hundreds of messages, and for an object literal V8 would define the getter again for each of them.
 */
export class LinkedMessage implements ChainPart {
  readonly role;
  readonly messageHash;
  readonly length;
  readonly hash;
  readonly parentHash;
  readonly #read: (index: number) => HashedMessage | undefined;
  readonly #index: number;

  /** The `message` getter calls `read` with `index`, so all parts of a prompt can share one function. */
  constructor(
    { role, messageHash, length }: Omit<HashedMessage, 'message'>,
    { hash, parentHash }: Link,
    read: (index: number) => HashedMessage | undefined,
    index = 0,
  ) {
    this.role = role;
    this.messageHash = messageHash;
    this.length = length;
    this.hash = hash;
    this.parentHash = parentHash;
    this.#read = read;
    this.#index = index;
  }

  get message() {
    return this.#read(this.#index)?.message ?? emptyMessage;
  }
}

export const emptyMessage: NormalMessage = { role: 'user', text: '', toolCalls: [] };

export function toHashedExtra(extra: PromptExtra): HashedExtra {
  if (extra.kind !== 'binary') return { role: extra.kind, details: { type: extra.type }, textHash: hashText(extra.text), text: extra.text };
  const { kind, ...details } = extra;
  return { role: kind, details, textHash: null, text: '' };
}

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
    parts.push(new LinkedExtra(extra, { hash, parentHash, position }, () => extra));
    parentHash = hash;
  }
  return parts;
}

/**
 * Like `LinkedMessage`, but for the parts of a prompt that aren't messages, i.e. for tools, system prompts, tool
 * results and images.
 */
export class LinkedExtra implements ExtraPart {
  readonly role;
  readonly details;
  readonly textHash;
  readonly hash;
  readonly parentHash;
  readonly position;
  readonly #read: (index: number) => HashedExtra | undefined;
  readonly #index: number;

  constructor(
    { role, details, textHash }: Omit<HashedExtra, 'text'>,
    { hash, parentHash, position }: Omit<ExtraPart, keyof HashedExtra>,
    read: (index: number) => HashedExtra | undefined,
    index = 0,
  ) {
    this.role = role;
    this.details = details;
    this.textHash = textHash;
    this.hash = hash;
    this.parentHash = parentHash;
    this.position = position;
    this.#read = read;
    this.#index = index;
  }

  get text() {
    return this.#read(this.#index)?.text ?? '';
  }
}

export function hashScope(projectId: string, source: string, subject: string | null): Sha256 {
  return hashText(`scope 1\n${[projectId, source, subject === null ? '-' : 'subject', subject ?? ''].map(prefixLength).join('')}`);
}

/** Combines a hash with a scope, so that a lookup only finds what belongs to this scope. */
export function toScopedKey(scope: Sha256, messageOrPart: Sha256): Sha256 {
  return hashBytes(scope + messageOrPart);
}

/**
 * Hashes a message. Ignores surrounding white space and the style of line breaks, because clients trim streamed text.
 * Arguments of tool calls are compared as JSON, because clients re-serialize them.
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
    return JSON.stringify(parseJsonOrThrow(trimmed));
  } catch {
    return trimmed; // Models sometimes write tool arguments that aren't valid JSON, so fall back to the text.
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

function hashBytes(hex: Sha256): Sha256 {
  const bytes = hex.length === 64 ? oneHash : twoHashes;
  bytes.write(hex, 'hex');
  return digest('sha256', bytes, 'hex');
}
