/**
 * Finds out which recalled memories a response mentions. This is a rough measure that doesn't need a model. We look for
 * names, numbers and less common words of a memory that are in the response but not in the prompt. If a response uses a
 * memory in different words we don't notice, and if it contains the same words by chance we think that it uses the
 * memory.
 */
import type { Queries } from '../../db/database.ts';
import { isUnspaced, splitIntoTokens } from '../text/lexemes.ts';
import { type RecalledMemory, readCallText } from './read-call-text.ts';

/**
 * Ignore shorter words, which are mostly function words. Scripts without spaces are compared by pairs of letters
 * instead.
 */
const minLength = 5;
/**
 * The response has to contain at least this many words of a memory, because a single one may be there by chance. For
 * names and numbers, that's unlikely, so one is enough.
 */
const minWords = 2;
const maxTerms = 5;
/** Words are too common to tell us anything if they occur in more than this share of the project's passages. */
const commonShare = 0.1;

/**
 * We only read this much of the prompt. If a word of the response only occurs in the rest of it, we wrongly treat the
 * word as new.
 */
const limits = { maxMessages: 100, maxText: 24_000 };

/** Returns which terms of each memory occur in the response, by memory id. Null if there's no response. */
export async function readMentions(
  queries: Queries,
  projectId: string,
  callId: string,
  recalled: readonly RecalledMemory[],
): Promise<ReadonlyMap<string, readonly string[]> | null> {
  const text = await readCallText(queries, projectId, callId, limits);
  if (!text?.answered) return null;
  const messages = text.messages.map((message) => [message.text, ...message.toolCalls.map((call) => call.arguments)].join('\n'));
  const prompt = [...messages.slice(0, -1), ...text.extras.map((extra) => extra.text ?? '')].join('\n');
  const texts = recalled.map((memory) => memory.text ?? '');
  const common = await findCommonWords(queries, projectId, texts);
  const response = messages.at(-1) ?? '';
  return new Map(recalled.map(({ id }, index) => [id, findMentions({ memory: texts[index] ?? '', response, prompt, common })]));
}

export interface MentionSources {
  readonly memory: string;
  readonly response: string;
  /** The text of the whole prompt without the recalled memories. */
  readonly prompt: string;
  readonly common: ReadonlySet<string>;
}

export function findMentions({ memory, response, prompt, common }: MentionSources): string[] {
  const answered = toTerms(response);
  const known = toTerms(prompt);
  const shared = [...toTerms(memory)].filter((term) => answered.has(term) && !known.has(term) && !common.has(term));
  const names = toNames(memory);
  // Ignore single digits, because a response may contain a numbered list.
  const strong = shared.filter((term) => (/\p{N}/u.test(term) && term.length > 1) || names.has(term));
  const words = shared.filter((term) => !strong.includes(term) && (term.length >= minLength || (term.length > 1 && isUnspaced(term))));
  if (strong.length === 0 && words.length < minWords) return [];
  return [...strong, ...words].slice(0, maxTerms);
}

/**
 * Returns the words of `texts` that are too common in this project to tell memories apart. Small projects have no word
 * statistics, so none of their words count as common.
 */
async function findCommonWords(queries: Queries, projectId: string, texts: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await queries.query<{ word: string }>(
    `select stat.word
       from memory_words stat
       join memory_embeddings state on state.project_id = stat.project_id
      where stat.project_id = $1::uuid and stat.word = any($2::text[]) and stat.passages > ${commonShare} * state.passages`,
    [projectId, [...toTerms(texts.join(' '))]],
  );
  return new Set(rows.map(({ word }) => word));
}

function toTerms(text: string): Set<string> {
  const terms = splitIntoTokens(text).split(' ');
  return new Set(terms.filter((term) => term !== ''));
}

function toNames(text: string): ReadonlySet<string> {
  const names = text.match(/(?<=[\p{L}\p{N},;)]\s)\p{Lu}[\p{L}\p{M}\p{N}]*/gu) ?? [];
  return toTerms(names.join(' '));
}
