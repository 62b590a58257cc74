/**
 * Inserts recalled memories into a body: on chat as one system message after the caller's leading system and developer messages, on
 * messages as one more text in `system`. All other bytes stay unchanged, so the position is found by scanning, and only single user
 * messages are parsed.
 */
import type { Dialect } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import type { BodySpans, Span, Splice } from '../../core/json/spans.ts';
import { decodeString, scanElements, scanMembers, setMember } from '../../core/json/spans.ts';
import { parsePrompt } from './prompt.ts';

export interface RecallInsertion {
  /** Text of the last user message, the search query. */
  readonly userText: string;
  /** The splices that insert `block` into the body. */
  insert(block: string): Splice[];
}

/** Newest user messages searched for text; those with tool results only have none. */
const maxScannedMessages = 256;
/** Longer messages are documents, not search queries. */
const maxMessageBytes = 1024 * 1024;

/** Null when there is no user text, or `system` has a type that nothing can be added to. */
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

interface ScannedMessages {
  /** Offset of the first message that is neither a system nor a developer message. */
  readonly afterSystem: number;
  /** The newest user messages, oldest first. */
  readonly users: readonly Span[];
}

const roleKey: ReadonlySet<string> = new Set(['role']);

function scanMessages(body: Buffer, list: Span): ScannedMessages {
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
  for (const { start, end } of users.slice(-maxScannedMessages).reverse()) {
    if (end - start > maxMessageBytes) return null;
    const { messages } = parsePrompt(dialect, { messages: [parseJson(body.toString('utf8', start, end))] });
    const text = messages.at(-1)?.text.trim() ?? '';
    if (text !== '') return text;
  }
  return null;
}

/** Turns a string into two blocks, appends to a list, and sets an absent, null or empty `system`. */
function addToSystem(body: Buffer, spans: BodySpans, block: string): Splice[] {
  const system = spans.members.get('system');
  const added = JSON.stringify({ type: 'text', text: block });
  if (system?.kind === 'array') {
    const { value } = system;
    const isEmpty = scanElements(body, value.start).next().done === true;
    return [insertAt(value.end - 1, isEmpty ? added : `,${added}`)];
  }
  // Vendors reject empty text blocks.
  if (system?.kind !== 'string' || decodeString(body, system.value) === '') return [setMember(spans, 'system', JSON.stringify(block))];
  return [insertAt(system.value.start, '[{"type":"text","text":'), insertAt(system.value.end, `},${added}]`)];
}

function insertAt(at: number, replacement: string): Splice {
  return { span: { start: at, end: at }, replacement };
}
