/**
 * How much of a request is kept as its prompt. A body may hold a million messages of one character; each one kept costs two hashes and two
 * rows in the database, and 100,000 of them held up a whole service with the embedded database for twelve seconds.
 *
 * Lost are, with the call that brings them: messages before the newest thousand to two thousand (those that an earlier call brought stay in
 * its conversation), findings before the newest two thousand (system prompts are kept), and tool calls of one message after the 128th.
 */
import { isObject, listOf } from '../core/json.ts';

/** Vendors take 128 tools; a message with more calls than that is nobody's work. */
export const mostToolCalls = 128;

const mostMessages = 2_000;
const mostFindings = 2_000;
/** Whole thousands are dropped, so that the calls of a long conversation begin with the same message and share its chain of parts. */
const dropStep = 1_000;

/** The newest messages of the list `value`, and the system prompt when that comes first. */
export function newestMessages(value: unknown): readonly unknown[] {
  const list = listOf(value);
  if (list.length <= mostMessages) return list;
  const kept = list.slice(Math.ceil((list.length - mostMessages) / dropStep) * dropStep);
  const [first] = list;
  return isObject(first) && (first.role === 'system' || first.role === 'developer') ? [first, ...kept] : kept;
}

/** All system prompts, and of everything else the newest. */
export function dropOldFindings<Found extends { readonly isSystem: boolean }>(found: readonly Found[]): readonly Found[] {
  let surplus = found.filter(({ isSystem }) => !isSystem).length - mostFindings;
  if (surplus <= 0) return found;
  return found.filter(({ isSystem }) => {
    if (isSystem || surplus <= 0) return true;
    surplus -= 1;
    return false;
  });
}
