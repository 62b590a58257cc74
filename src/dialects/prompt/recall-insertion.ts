/**
 * Inserts recalled memories into a body. On chat, they become a system message after the caller's leading system and
 * developer messages. On messages, they are added to `system`. All other bytes stay the same, because we only scan the
 * body for the right position. The only things that we parse are a few user messages.
 */
import type { Dialect } from '../../core/call.ts';
import { parseJson } from '../../core/json/parse.ts';
import { type BodySpans, decodeString, type Span, type Splice, scanElements, scanMembers, setMember } from '../../core/json/spans.ts';
import type { ValueKind } from '../../core/json/syntax.ts';
import { parsePrompt } from './prompt.ts';

export interface RecallInsertion {
  /** The text of the last user message, used as the search query of recall. */
  readonly userText: string;
  insert(block: string): Splice[];
}

/**
 * We search at most this many user messages for text, starting with the newest. Many of them have no text, because they
 * only contain tool results.
 */
const maxScannedMessages = 256;
/** We don't search for longer texts, because they're documents rather than questions. */
const maxTextBytes = 1024 * 1024;
const maxBlocks = 1_000;

/** Returns null if there's no user text to search for, or if we can't add text to `system` because of its type. */
export function findRecallInsertion(dialect: Dialect, body: Buffer, spans: BodySpans): RecallInsertion | null {
  const list = spans.members.get('messages');
  if (list?.kind !== 'array') return null;
  const { afterSystem, users } = scanMessages(body, list.value);
  const userText = lastText(dialect, body, users);
  if (userText === null) return null;
  if (dialect === 'chat')
    return { userText, insert: (block) => [insertAt(afterSystem, `${JSON.stringify({ role: 'system', content: block })},`)] };
  const system = spans.members.get('system');
  const isText = system === undefined || ['null', 'string', 'array'].includes(system.kind);
  return isText ? { userText, insert: (block) => [...addToSystem(body, spans, block)] } : null;
}

const roleKey: ReadonlySet<string> = new Set(['role']);

/**
 * Returns the offset of the first message after the leading system and developer messages, and the newest user messages
 * in chronological order.
 */
function scanMessages(body: Buffer, list: Span): { afterSystem: number; users: Span[] } {
  let afterSystem: number | null = null;
  const users: Span[] = [];
  for (const { kind, value } of scanElements(body, list.start)) {
    const role = kind === 'object' ? scanMembers(body, value.start, roleKey).members.get('role') : undefined;
    const name = role?.kind === 'string' ? decodeString(body, role.value) : '';
    if (name !== 'system' && name !== 'developer') afterSystem ??= value.start;
    if (name !== 'user') continue;
    users.push(value);
    if (users.length >= 2 * maxScannedMessages) users.splice(0, maxScannedMessages);
  }
  return { afterSystem: afterSystem ?? list.start, users };
}

function lastText(dialect: Dialect, body: Buffer, users: readonly Span[]): string | null {
  for (const user of users.slice(-maxScannedMessages).reverse()) {
    const message = parseUserMessage(body, user);
    if (message === null) return null;
    const { messages } = parsePrompt(dialect, { messages: [message] });
    const text = messages.at(-1)?.text.trim() ?? '';
    if (text !== '') return text;
  }
  return null;
}

const contentKey: ReadonlySet<string> = new Set(['content']);

/**
 * Parses a user message, or only its text if it's large, because images and files have several megabytes. Returns null
 * if there's too much text or there are too many blocks.
 */
function parseUserMessage(body: Buffer, message: Span): unknown {
  if (lengthOf(message) <= maxTextBytes) return parseSpan(body, message);
  const content = scanMembers(body, message.start, contentKey).members.get('content');
  if (content?.kind !== 'array') return null;
  const texts: Span[] = [];
  let [blocks, bytes] = [0, 0];
  for (const block of scanElements(body, content.value.start)) {
    blocks += 1;
    if (isText(body, block)) {
      texts.push(block.value);
      bytes += lengthOf(block.value);
    }
    if (blocks > maxBlocks || bytes > maxTextBytes) return null;
  }
  return { role: 'user', content: texts.map((text) => parseSpan(body, text)) };
}

const typeKey: ReadonlySet<string> = new Set(['type']);

function isText(body: Buffer, { kind, value }: { readonly kind: ValueKind; readonly value: Span }): boolean {
  if (kind !== 'object') return kind === 'string';
  const type = scanMembers(body, value.start, typeKey).members.get('type');
  return type?.kind === 'string' && decodeString(body, type.value) === 'text';
}

function lengthOf({ start, end }: Span): number {
  return end - start;
}

function parseSpan(body: Buffer, { start, end }: Span): unknown {
  return parseJson(body.toString('utf8', start, end));
}

/** Adds the block to `system`. A string becomes a list of two blocks. A missing, null or empty value is replaced. */
function addToSystem(body: Buffer, spans: BodySpans, block: string): Splice[] {
  const system = spans.members.get('system');
  const added = JSON.stringify({ type: 'text', text: block });
  if (system?.kind === 'array') {
    const { value } = system;
    const isEmpty = scanElements(body, value.start).next().done === true;
    return [insertAt(value.end - 1, isEmpty ? added : `,${added}`)];
  }
  // Replace an empty string, because vendors reject empty text blocks.
  if (system?.kind !== 'string' || decodeString(body, system.value) === '') return [setMember(spans, 'system', JSON.stringify(block))];
  return [insertAt(system.value.start, '[{"type":"text","text":'), insertAt(system.value.end, `},${added}]`)];
}

function insertAt(at: number, replacement: string): Splice {
  return { span: { start: at, end: at }, replacement };
}
