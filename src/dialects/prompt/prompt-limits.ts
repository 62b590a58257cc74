/**
 * Limits how much of a request is stored as its prompt. A body may hold a million one-character messages; each stored message costs two
 * hashes and two rows, and 100,000 of them blocked a service with the embedded database for twelve seconds.
 *
 * Dropped: messages before the newest one to two thousand (those of earlier calls stay in the conversation), blocks before the newest ten
 * thousand of a message, tool calls after the 128th, text after four million characters, and extras (system prompts last) before the newest
 * two thousand or four million characters.
 */
import { asArray, isObject } from '../../core/json/narrow.ts';
import type { PromptExtra } from './prompt-extras.ts';

/** Vendors accept 128 tools; no real message calls more. */
export const maxToolCalls = 128;

const maxMessages = 2_000;
const maxBlocks = 10_000;
export const maxExtras = 2_000;
/** More than any context window; the embedded database takes 0.1 s to compress a million characters. */
const maxCharacters = 4 * 1_024 * 1_024;
/** Messages are dropped in steps, so that the calls of a long conversation start with the same message and share their chain parts. */
const dropStep = 1_000;

/** The newest messages of the list `value`, preceded by its system prompt when that is the first message. */
export function newestMessages(value: unknown): readonly unknown[] {
  const list = asArray(value);
  if (list.length <= maxMessages) return list;
  const kept = list.slice(Math.ceil((list.length - maxMessages) / dropStep) * dropStep);
  const [first] = list;
  return isObject(first) && (first.role === 'system' || first.role === 'developer') ? [first, ...kept] : kept;
}

/** The newest blocks of a message; content that is not a list is its only block. */
export function newestBlocks(content: unknown): readonly unknown[] {
  return Array.isArray(content) ? content.slice(-maxBlocks) : [content];
}

export function truncateText(text: string): string {
  return text.length > maxCharacters ? text.slice(0, maxCharacters) : text;
}

/** Evaluates the candidates within the limits and returns their extras in the original order. */
export function collectNewest<Candidate extends { readonly isSystem: boolean }, Extra extends PromptExtra>(
  candidates: readonly Candidate[],
  toExtras: (candidate: Candidate) => readonly Extra[],
): Extra[] {
  const kept = new Map<Candidate, readonly Extra[]>();
  let characters = 0;
  // Priority: system prompts, then the newest of the others.
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
