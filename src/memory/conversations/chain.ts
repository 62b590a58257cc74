/**
 * Chains messages by hash, so that a message is stored once however often clients repeat their history (lessons, design note 3).
 *
 * A message's own hash covers its role, text and tool calls; a part's hash covers that and the hash of the part before it, so that equal
 * part hashes mean equal histories. Each field is preceded by its length: no two messages have the same encoding.
 */
import { hash } from 'node:crypto';
import type { NormalMessage } from '../../dialects/prompt/prompt.ts';

/** A message at its place in a chain. */
export interface ChainPart {
  readonly message: NormalMessage;
  /** Hash of the message alone: the same wherever it stands. */
  readonly messageHash: Buffer;
  /** Hash of the message and all before it. */
  readonly hash: Buffer;
  readonly parentHash: Buffer | null;
}

/** The parts of `messages`, which begin a chain. */
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

/** Conversations live in a scope: one application of a project and one subject, or none (decisions 9). */
export function hashScope(projectId: string, source: string, subject: string | null): Buffer {
  return sha256(`scope 1\n${[projectId, source, subject === null ? '-' : 'subject', subject ?? ''].map(prefixLength).join('')}`);
}

/** A hash as it is looked up: within one scope only. */
export function toScopedKey(scope: Buffer, messageOrPart: Buffer): Buffer {
  return sha256(Buffer.concat([scope, messageOrPart]));
}

/**
 * White space around a text and the kind of line ends do not count: clients trim what was streamed to them. Arguments are compared as
 * JSON, since many clients parse them and write them anew.
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
    return trimmed; // Models write broken JSON at times; then the text itself is compared.
  }
}

function prefixLength(field: string): string {
  return `${field.length}:${field}`;
}

function sha256(content: string | Buffer): Buffer {
  return hash('sha256', content, 'buffer');
}
