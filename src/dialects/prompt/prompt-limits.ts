/**
 * How much of a request is kept as its prompt. A body may hold a million messages of one character; each one kept costs two hashes and two
 * rows in the database, and 100,000 of them held up a whole service with the embedded database for twelve seconds.
 *
 * Lost are, with the call that brings them: messages before the newest thousand to two thousand (those that an earlier call brought stay in
 * its conversation), blocks of a message before the newest ten thousand, tool calls of a message after the 128th, the end of a text behind
 * four million characters, and findings (system prompts last) before the newest two thousand or four million characters.
 */
import { asArray, isObject } from '../../core/json/narrow.ts';
import type { PromptExtra } from './prompt-extras.ts';

/** Vendors take 128 tools; a message with more calls than that is nobody's work. */
export const maxToolCalls = 128;

const maxMessages = 2_000;
const maxBlocks = 10_000;
const maxExtras = 2_000;
/** More than any model reads; the embedded database needs 0.1 s to compress a million of them. */
const maxCharacters = 4 * 1_024 * 1_024;
/** Whole thousands are dropped, so that the calls of a long conversation begin with the same message and share its chain of parts. */
const dropStep = 1_000;

/** The newest messages of the list `value`, and the system prompt when that comes first. */
export function newestMessages(value: unknown): readonly unknown[] {
  const list = asArray(value);
  if (list.length <= maxMessages) return list;
  const kept = list.slice(Math.ceil((list.length - maxMessages) / dropStep) * dropStep);
  const [first] = list;
  return isSystemPrompt(first) ? [first, ...kept] : kept;
}

/** Blocks of a message; content that is no list is the only one. */
export function newestBlocks(content: unknown): readonly unknown[] {
  return Array.isArray(content) ? content.slice(-maxBlocks) : [content];
}

export function truncateText(text: string): string {
  return text.length > maxCharacters ? text.slice(0, maxCharacters) : text;
}

/** Reads what was found, as far as it is kept, in its order. */
export function collectNewest<Place extends { readonly isSystem: boolean }, Read extends PromptExtra>(
  places: readonly Place[],
  read: (place: Place) => readonly Read[],
): Read[] {
  const kept = new Map<Place, readonly Read[]>();
  let characters = 0;
  // System prompts first, since they stand before all else; then from the end on.
  const inOrder = [
    ...places.filter(({ isSystem }) => isSystem).slice(0, maxExtras),
    ...places
      .filter(({ isSystem }) => !isSystem)
      .slice(-maxExtras)
      .reverse(),
  ];
  for (const place of inOrder) {
    if (characters > maxCharacters) break;
    const findings = read(place).map(truncateExtra);
    characters += findings.reduce((sum, finding) => sum + (finding.kind === 'binary' ? 0 : finding.text.length), 0);
    kept.set(place, findings);
  }
  return places.flatMap((place) => kept.get(place) ?? []);
}

function truncateExtra<Read extends PromptExtra>(finding: Read): Read {
  return finding.kind === 'binary' ? finding : { ...finding, text: truncateText(finding.text) };
}

function isSystemPrompt(message: unknown): boolean {
  return isObject(message) && (message.role === 'system' || message.role === 'developer');
}
