/**
 * Limits how much of a request we store as its prompt. A body can contain a million messages of one character, and each
 * stored message costs two hashes and two rows. With the embedded database, 100,000 messages blocked a service for
 * twelve seconds.
 *
 * We drop
 *
 * - all but the newest one to two thousand messages (messages from earlier calls stay in the conversation)
 * - all but the newest ten thousand blocks of a message
 * - tool calls after the 128th
 * - text after four million characters
 * - all but the newest two thousand extras, or the newest four million characters of them, but system prompts are
 *   dropped last
 */
import { asArray, isObject } from '../../core/json/narrow.ts';
import type { PromptExtra } from './prompt-extras.ts';

/** Vendors accept 128 tools, and no real message calls more than that, so further calls are dropped. */
export const maxToolCalls = 128;

const maxMessages = 2_000;
const maxBlocks = 10_000;
export const maxExtras = 2_000;
/**
 * The maximum length of a stored text, and of all extras (everything but the messages) of a prompt together. No context
 * window is this large. The embedded database takes 0.1 s to compress a million characters.
 */
const maxCharacters = 4 * 1_024 * 1_024;
/** Nearly all credentials are shorter than this. */
const maxWordLength = 4_096;
/**
 * Old messages are dropped in steps of this size. If they were dropped one by one, each call of a long conversation
 * would start with a different message, and the calls couldn't share their stored messages.
 */
const dropStep = 1_000;

/** Returns the newest messages of a list. A system prompt at the start of the list is kept too. */
export function newestMessages(value: unknown): readonly unknown[] {
  const list = asArray(value);
  if (list.length <= maxMessages) return list;
  const kept = list.slice(Math.ceil((list.length - maxMessages) / dropStep) * dropStep);
  const [first] = list;
  return isObject(first) && (first.role === 'system' || first.role === 'developer') ? [first, ...kept] : kept;
}

/** Returns the newest blocks of a message. Content that isn't a list counts as a single block. */
export function newestBlocks(content: unknown): readonly unknown[] {
  return Array.isArray(content) ? content.slice(-maxBlocks) : [content];
}

/**
 * Truncates a long text between two words, because credentials are masked later, and we wouldn't recognize half of one.
 * Only a word that's longer than `maxWordLength` can be cut in two.
 */
export function truncateText(text: string): string {
  if (text.length <= maxCharacters) return text;
  const word = /\s\S*$/.exec(text.slice(maxCharacters - maxWordLength, maxCharacters + 1));
  return text.slice(0, word ? maxCharacters - maxWordLength + word.index : maxCharacters);
}

/**
 * Collects the extras of the candidates in their original order, but only up to the limits above. If not all of them
 * fit, system prompts take precedence, followed by the newest of the others.
 */
export function collectNewest<Candidate extends { readonly isSystem: boolean }, Extra extends PromptExtra>(
  candidates: readonly Candidate[],
  toExtras: (candidate: Candidate) => readonly Extra[],
): Extra[] {
  const kept = new Map<Candidate, readonly Extra[]>();
  let characters = 0;
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
