/**
 * Links messages by hash, so that each is stored once however often clients repeat their history.
 *
 * A message hash covers role, text and tool calls; a part hash covers the message hash and the hash of the preceding part, so equal part
 * hashes mean equal histories. Length prefixes make the encoding unambiguous.
 */
import { hash as digest } from 'node:crypto';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

/** A SHA-256 in 64 hexadecimal digits: a map key as it is, and cheaper than a Buffer. */
export type Sha256 = string;

/** A message linked to its predecessor. */
export interface ChainPart {
  readonly message: NormalMessage;
  /** Hash of the message alone, independent of its position. */
  readonly messageHash: Sha256;
  /** Hash of the message and all before it. */
  readonly hash: Sha256;
  readonly parentHash: Sha256 | null;
}

/** Links `messages` to each other, and the first of them to the part with the hash `after`; null when it starts a chain. */
export function chainMessages(messages: readonly NormalMessage[], after: Sha256 | null = null): ChainPart[] {
  const parts: ChainPart[] = [];
  let parentHash = after;
  for (const message of messages) {
    const messageHash = hashMessage(message);
    const hash: Sha256 = parentHash === null ? hashBytes(messageHash) : hashBytes(parentHash + messageHash);
    parts.push({ message, messageHash, hash, parentHash });
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

function hashText(text: string): Sha256 {
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
