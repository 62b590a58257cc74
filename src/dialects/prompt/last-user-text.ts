/**
 * Finds the text of the last user message in a chat or messages body. This parses JSON, so it's only used for small
 * bodies, and not for every call.
 */
import type { Dialect } from '../../core/call.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { BodySpans } from '../../core/json/spans.ts';
import { parsePrompt } from './prompt.ts';

const maxBytes = 256 * 1024;

/** Returns null if there's no user message, or if the messages are too large to be worth parsing. */
export function parseLastUserText(dialect: Dialect, body: Buffer, { members }: BodySpans): string | null {
  const value = members.get('messages')?.value;
  if (!value || value.end - value.start > maxBytes) return null;
  const { messages } = parsePrompt(dialect, { messages: parseJson(body.toString('utf8', value.start, value.end)) });
  return messages.findLast((message) => message.role === 'user')?.text ?? null;
}
