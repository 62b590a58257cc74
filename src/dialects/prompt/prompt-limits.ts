/**
 * Limits how much of a request we store as its prompt. A body may contain a million messages of one character, and each
 * stored message costs two hashes and two rows. With the embedded database, 100,000 of them blocked a service for
 * twelve seconds.
 *
 * We drop
 *
 * - all messages before the newest one to two thousand, although those of earlier calls stay in the conversation
 * - all blocks of a message before the newest ten thousand
 * - tool calls after the 128th
 * - text after four million characters
 * - extras before the newest two thousand, or before the last four million characters, but system prompts last of all
 */
import { asArray, isObject } from '../../core/json/narrow.ts';
import type { PromptExtra } from './prompt-extras.ts';

/** Vendors accept 128 tools, and no real message calls more than that. */
export const maxToolCalls = 128;

const maxMessages = 2_000;
const maxBlocks = 10_000;
export const maxExtras = 2_000;
/** This is more than any context window. The embedded database takes 0.1 s to compress a million characters. */
const maxCharacters = 4 * 1_024 * 1_024;
/**
 * We drop messages in steps, so that the calls of a long conversation start with the same message and can share parts
 * of their chain.
 */
const dropStep = 1_000;

/** Returns the newest messages of a list. If the first message is a system prompt, we keep it too. */
export function newestMessages(value: unknown): readonly unknown[] {
  const list = asArray(value);
  if (list.length <= maxMessages) return list;
  const kept = list.slice(Math.ceil((list.length - maxMessages) / dropStep) * dropStep);
  const [first] = list;
  return isObject(first) && (first.role === 'system' || first.role === 'developer') ? [first, ...kept] : kept;
}

/** Returns the newest blocks of a message. If the content isn't a list, it's the only block. */
export function newestBlocks(content: unknown): readonly unknown[] {
  return Array.isArray(content) ? content.slice(-maxBlocks) : [content];
}

export function truncateText(text: string): string {
  return text.length > maxCharacters ? text.slice(0, maxCharacters) : text;
}

/** Evaluates candidates until we reach the limits, and returns their extras in the original order. */
export function collectNewest<Candidate extends { readonly isSystem: boolean }, Extra extends PromptExtra>(
  candidates: readonly Candidate[],
  toExtras: (candidate: Candidate) => readonly Extra[],
): Extra[] {
  const kept = new Map<Candidate, readonly Extra[]>();
  let characters = 0;
  // System prompts come first, followed by the newest of the other candidates.
  const inOrder = [
    ...candidates.filter(({ isSystem }) => isSystem).slice(0, maxExtras),
    ...candidates
      .filter(({ isSystem }) => !isSystem)
      .slice(-maxExtras)
      .reverse(),
  ];
  for (const candidate of inOrder) {
    if (characters > maxCharacters) break;
    const extras = toExtras(candidate).map(truncateExtra);
    characters += extras.reduce((sum, extra) => sum + (extra.kind === 'binary' ? 0 : extra.text.length), 0);
    kept.set(candidate, extras);
  }
  return candidates.flatMap((candidate) => kept.get(candidate) ?? []);
}

function truncateExtra<Extra extends PromptExtra>(extra: Extra): Extra {
  return extra.kind === 'binary' ? extra : { ...extra, text: truncateText(extra.text) };
}
