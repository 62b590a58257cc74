/**
 * Where recalled memories go in a body, and what they are looked up for (decisions 3): on chat one system message behind the caller's own
 * leading system and developer messages, on messages one more text in `system`. All other bytes stay as they are, so the place is found by
 * scanning, and only single messages of the user are parsed.
 */
import type { Dialect } from '../../core/call.ts';
import { parseJson } from '../../core/json/narrow.ts';
import type { BodySpans, Span, Splice } from '../../core/json/spans.ts';
import { decodeString, scanElements, scanMembers, setMember } from '../../core/json/spans.ts';
import { parsePrompt } from './prompt.ts';

export interface RecallInsertion {
  /** What the user said last. */
  readonly userText: string;
  /** The changes that put `block` into the body. */
  insert(block: string): Splice[];
}

/** Of messages without text (results of tools), so many are passed over. */
const maxScannedMessages = 256;
/** What is parsed of a message: longer ones are documents, and no question. */
const maxMessageBytes = 1024 * 1024;

/** Null when the user has said nothing, or the body has no place for more. */
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
  /** Where the first message begins that is neither of the system nor of the developer. */
  readonly afterSystem: number;
  /** The newest messages of the user, in their order. */
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

/** A text becomes two blocks, a list gets one more; what is absent, null or empty is set. */
function addToSystem(body: Buffer, spans: BodySpans, block: string): Splice[] {
  const system = spans.members.get('system');
  const added = JSON.stringify({ type: 'text', text: block });
  if (system?.kind === 'array') {
    const { value } = system;
    const isEmpty = scanElements(body, value.start).next().done === true;
    return [insertAt(value.end - 1, isEmpty ? added : `,${added}`)];
  }
  // An empty text is no block: vendors refuse one.
  if (system?.kind !== 'string' || decodeString(body, system.value) === '') return [setMember(spans, 'system', JSON.stringify(block))];
  return [insertAt(system.value.start, '[{"type":"text","text":'), insertAt(system.value.end, `},${added}]`)];
}

function insertAt(at: number, replacement: string): Splice {
  return { span: { start: at, end: at }, replacement };
}
