/**
 * Links messages by hash, so that each is stored once however often clients repeat their history.
 *
 * A message hash covers role, text and tool calls; a part hash covers the message hash and the hash of the preceding part, so equal part
 * hashes mean equal histories. Length prefixes make the encoding unambiguous.
 */
import { hash } from 'node:crypto';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

/** A message linked to its predecessor. */
export interface ChainPart {
  readonly message: NormalMessage;
  /** Hash of the message alone, independent of its position. */
  readonly messageHash: Buffer;
  /** Hash of the message and all before it. */
  readonly hash: Buffer;
  readonly parentHash: Buffer | null;
}

/** Builds the chain that starts with `messages`. */
export function chainMessages(messages: readonly NormalMessage[]): ChainPart[] {
  const parts: ChainPart[] = [];
  let parentHash: Buffer | null = null;
  for (const message of messages) {
    const messageHash = hashMessage(message);
    const part: ChainPart = {
      message,
      messageHash,
      hash: sha256(parentHash ? Buffer.concat([parentHash, messageHash]) : messageHash),
      parentHash,
    };
    parts.push(part);
    parentHash = part.hash;
  }
  return parts;
}

/** Scope of a conversation: project, source and subject (null for none). */
export function hashScope(projectId: string, source: string, subject: string | null): Buffer {
  return sha256(`scope 1\n${[projectId, source, subject === null ? '-' : 'subject', subject ?? ''].map(prefixLength).join('')}`);
}

/** Lookup key of a hash; includes the scope, so a lookup never leaves it. */
export function toScopedKey(scope: Buffer, messageOrPart: Buffer): Buffer {
  return sha256(Buffer.concat([scope, messageOrPart]));
}

/**
 * Ignores surrounding white space and the kind of line ends, because clients trim streamed text, and compares arguments as JSON, because
 * clients re-serialize them.
 */
function hashMessage({ role, text, toolCalls }: NormalMessage): Buffer {
  const calls = toolCalls.map((call) => prefixLength(call.name) + prefixLength(normalizeArguments(call.arguments)));
  return sha256(`message 1\n${prefixLength(role)}${prefixLength(normalizeText(text))}${calls.join('')}`);
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

/** A hash as a map key: one character per byte. */
export function hashKey(hash: Buffer): string {
  return hash.toString('latin1');
}

function sha256(content: string | Buffer): Buffer {
  return hash('sha256', content, 'buffer');
}
