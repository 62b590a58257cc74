/**
 * Checks that a statement says no more than the messages do. If its quotation is verbatim, that only proves that
 * somebody said these words, so we also look for the statement's names, numbers and dates. Where this depends on the
 * language, we rely on lists from the model. The rules are in docs/architecture/learning.md#evidence.
 */
import { foldName, splitIntoTokens } from '../text/lexemes.ts';
import { normalizeWords } from '../text/normalized-text.ts';
import type { GroupMessage } from './group-messages.ts';
import { findNumbers, type RelativeDate, resolveOffset } from './numbers.ts';

/**
 * Why a statement isn't grounded.
 *
 * - `evidence`: the evidence is too short, or it's something that the assistant said and the user didn't respond to
 * - `content`: the evidence is about something else
 * - `names`, `numbers`: the statement has a name or number that nobody mentioned
 */
export type GroundingRefusal = 'evidence' | 'content' | 'names' | 'numbers';

export interface Claim {
  readonly text: string;
  /** The proper names in the text. The model lists them, and also the `numbers`. */
  readonly names: readonly string[];
  readonly numbers: readonly string[];
  /** Relative dates in the statement that the model has resolved to absolute ones. */
  readonly dates: readonly RelativeDate[];
  readonly evidence: string;
  /** Index of the message that contains the evidence. */
  readonly index: number;
}

export interface Grounding {
  readonly refusal: GroundingRefusal | null;
  /** The evidence to store. A short answer is stored together with the question. */
  readonly evidence: string;
}

/**
 * The evidence needs at least this many letters and digits, because `yes`, `the` or `はい` wouldn't prove anything.
 * Letters of scripts without spaces count twice. Shorter evidence will do if it's at the beginning of a reply to a
 * question.
 */
const minEvidenceWeight = 6;
/**
 * Names may come up in a different message than the evidence. A user may write `my sister`, and only mention two turns
 * later that she's called `Ana`. So we also look for names in this many messages before and after it.
 */
const contextMessages = 4;
/** A statement needs more than this share of its words in the messages, otherwise it isn't supported. */
const minSaidShare = 1 / 3;
/** We look for words inside compounds if they have at least this length, e.g. `Laktose` in `laktoseintolerant`. */
const minCompoundPart = 5;
/** The maximum length of a question that we store in front of a short answer. If it's longer, we only store its end. */
const maxQuestionLength = 500;
/**
 * A relative date counts from the day of the message, or from any date that the message mentions, such as `2026-11-20`.
 * We try at most this many of these dates.
 */
const maxOrigins = 10;

/**
 * Returns a function that checks whether the messages support a claim. Pass the messages in order, with their white
 * space collapsed.
 */
export function createGroundingCheck(messages: readonly GroupMessage[]): (claim: Claim) => Grounding {
  const contexts = new Map<number, Context>();
  return (claim) => {
    const { evidence, index } = claim;
    const message = messages[index];
    const question = message?.role === 'user' ? findQuestion(messages, index) : null;
    const isShort = weigh(evidence) < minEvidenceWeight;
    const result = (refusal: GroundingRefusal | null): Grounding => ({ refusal, evidence: isShort ? `${question} ${evidence}` : evidence });
    if (message === undefined || (isShort && !(question !== null && message.text.startsWith(evidence)))) return result('evidence');
    if (message.role === 'assistant' && !hasReply(messages, index)) return result('evidence');
    const context = contexts.get(index) ?? readContext(messages, index);
    contexts.set(index, context);
    if (!areNumbersGrounded(claim, context)) return result('numbers');
    if (!areNamesGrounded(claim, context)) return result('names');
    return result(isContentGrounded(claim.text, `${question ?? ''} ${evidence}`, context) ? null : 'content');
  };
}

/**
 * Returns a function that checks whether all names and numbers in a sentence (or in a single name) occur in `texts`.
 */
export function createNameCheck(texts: readonly string[]): (said: string, form: 'sentence' | 'name') => boolean {
  const context = toContext(texts.join('\n'));
  return (text, form) =>
    areNumbersGrounded({ text, numbers: [], dates: [] }, context) &&
    (areNamesGrounded({ text, names: form === 'name' ? [text] : [] }, context) || (form === 'name' && foldName(text) === 'user'));
}

function weigh(evidence: string): number {
  const letters = evidence.match(/[\p{L}\p{N}]/gu) ?? [];
  const unspaced = evidence.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/gu) ?? [];
  return letters.length + unspaced.length;
}

/** Returns the last question in the assistant's message directly before the user's, or null if there is none. */
function findQuestion(messages: readonly GroupMessage[], index: number): string | null {
  const before = previousMessage(messages, index);
  if (before?.role !== 'assistant') return null;
  const { text } = before;
  const end = Math.max(...['?', '？', '؟'].map((mark) => text.lastIndexOf(mark)));
  if (end < 0) return null;
  const start = Math.max(...Array.from('.!?。！？؟', (mark) => (end === 0 ? -1 : text.lastIndexOf(mark, end - 1))));
  return text.slice(Math.max(start + 1, end + 1 - maxQuestionLength), end + 1).trim();
}

function hasReply(messages: readonly GroupMessage[], index: number): boolean {
  const next = messages[index + 1];
  return next?.role === 'user' && next.conversationId === messages[index]?.conversationId;
}

function previousMessage(messages: readonly GroupMessage[], index: number): GroupMessage | null {
  const before = messages[index - 1];
  return before && before.conversationId === messages[index]?.conversationId ? before : null;
}

/**
 * The text in which we look for a statement's names and numbers. It consists of the message, the user's messages
 * shortly before and after it, and the assistant's message directly before it. We keep it both as normalized text and
 * as words and numbers.
 */
interface Context {
  readonly text: string;
  readonly words: ReadonlySet<string>;
  /** Words, keyed by their first three letters. */
  readonly byStart: ReadonlyMap<string, readonly string[]>;
  readonly numbers: ReadonlySet<string>;
  /** The message and, if it's a reply, the assistant's message before it. */
  readonly near: string;
  readonly origins: readonly Date[];
}

function toContext(text: string, near = text, saidAt: readonly Date[] = []): Context {
  const words = new Set(splitWords(text));
  const named = (near.match(/\b\d{4}-\d{2}-\d{2}\b/g) ?? []).map((date) => new Date(date));
  return {
    text: normalizeWords(text),
    words,
    byStart: Map.groupBy(words, (word) => word.slice(0, 3)),
    numbers: new Set(findNumbers(text).flat()),
    near,
    origins: [...saidAt, ...named].slice(0, maxOrigins),
  };
}

function readContext(messages: readonly GroupMessage[], index: number): Context {
  const message = messages[index];
  const before = previousMessage(messages, index);
  const nearby = messages
    .slice(Math.max(0, index - contextMessages), index + contextMessages + 1)
    .filter(
      (other) => other.conversationId === message?.conversationId && (other.role === 'user' || other === before || other === message),
    );
  const near = `${before?.text ?? ''}\n${message?.text ?? ''}`;
  return toContext(nearby.map(({ text }) => text).join('\n'), near, message ? [message.createdAt] : []);
}

/**
 * Checks whether the messages mention every number in the statement, or a relative date that leads to it. In a date
 * like `2031-08-04` we only check the year and the day, because the user may have written the month as a word.
 */
function areNumbersGrounded({ text, numbers, dates }: Pick<Claim, 'text' | 'numbers' | 'dates'>, context: Context): boolean {
  const resolved = dates
    .filter(({ said }) => said.trim() !== '' && context.near.includes(said))
    .flatMap(({ offset }) => context.origins.flatMap((origin) => resolveOffset(origin, offset)));
  const wasSaid = (digits: string): boolean => digits === '0' || context.numbers.has(digits) || resolved.includes(digits);
  const rest = text.replace(/\b(\d{4})-\d{2}-0?(\d{1,2})\b/g, (date, year, day) =>
    context.numbers.has(year) && context.numbers.has(day) ? ' ' : date,
  );
  return (
    findNumbers(rest).every(([whole = '', ...parts]) => wasSaid(whole) || parts.every(wasSaid)) &&
    numbers.filter((number) => !/\p{N}/u.test(number)).every((number) => wasSaidExactly(number, context))
  );
}

function wasSaidExactly(number: string, { text, words }: Context): boolean {
  return isCased(number) ? splitWords(number).every((word) => words.has(word)) : text.includes(normalizeWords(number));
}

/**
 * Very common words that tell us that a text is in German. German capitalizes all nouns, so we can't find names by
 * their capital letters and only check the names that the model lists.
 */
const germanWords = /(?<!\p{L})(?:der|die|das|und|ist|nicht|mit|ein|eine|einen)(?!\p{L})/iu;
/** Matches capitalized words that aren't at the beginning of a sentence. */
const capitalized =
  /(?<=[\p{L}\p{M}\p{N}][^\p{L}\p{M}\p{N}.!?:;\n]{1,20})(?=[\p{L}\p{M}\p{N}]{2})[\p{L}\p{M}\p{N}]*\p{Lu}[\p{L}\p{M}\p{N}]*/gu;

/** Checks whether all proper names occur in the messages, possibly with different endings. */
function areNamesGrounded({ text, names }: Pick<Claim, 'text' | 'names'>, context: Context): boolean {
  const listed = names.filter((name) => text.includes(name)).flatMap((name) => name.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []);
  const found = germanWords.test(text) ? [] : (text.match(capitalized) ?? []);
  return [...listed, ...found].every((name) => wasNameSaid(name, context));
}

function wasNameSaid(name: string, { text, byStart }: Context): boolean {
  if (!isCased(name)) return text.includes(normalizeWords(name));
  return splitWords(name).every((word) => byStart.get(word.slice(0, 3))?.some((said) => isSameName(said, word)));
}

/**
 * Returns true if two names only differ in their endings, such as `Anna` and `Annas`, or `Warszawa` and `Warszawie`.
 */
function isSameName(said: string, name: string): boolean {
  const common = countCommonLetters(said, name);
  const [shorter = 0, longer = 0] = [said.length, name.length].sort((a, b) => a - b);
  return common >= Math.min(shorter, 5) && longer - common <= (shorter < 3 ? 0 : 3);
}

/**
 * Checks whether the evidence mentions something from the statement, and whether the messages contain enough of its
 * words. We allow one word to be missing, because few users say "the user". All numbers together count as one word.
 */
function isContentGrounded(text: string, evidence: string, context: Context): boolean {
  const all = splitWords(text);
  const numbers = all.some((word) => /^\p{N}/u.test(word)) ? 1 : 0;
  // Skip pairs of letters, because they would count twice, and very short words, because they say little about the
  // content.
  const words = all.filter((word) => !/^\p{N}/u.test(word) && (isCased(word) ? word.length > 2 : word.length !== 2));
  const said = words.filter((word) => wasWordSaid(word, context)).length + numbers;
  const unsaid = words.filter((word) => (word.length > 3 || !isCased(word)) && !wasWordSaid(word, context)).length;
  const quoted = toContext(evidence);
  const isNamed = words.length === 0 || numbers > 0 || words.some((word) => wasWordSaid(word, quoted));
  return isNamed && said > minSaidShare * (said + unsaid - 1);
}

/**
 * Checks whether the messages contain the word. It may have a different ending there, or be part of a longer word. In
 * some languages, letters are also attached to the front of a word.
 */
function wasWordSaid(word: string, { text, words, byStart }: Context): boolean {
  if (words.has(word)) return true;
  if (!isCased(word)) return [0, 1, 2].some((skipped) => word.length - skipped > 2 && text.includes(word.slice(skipped)));
  if (word.length > 3 && text.includes(word)) return true;
  return (byStart.get(word.slice(0, 3)) ?? []).some((said) => {
    const common = countCommonLetters(word, said);
    return common >= 0.55 * Math.max(word.length, said.length) || (common === said.length && common >= minCompoundPart);
  });
}

function isCased(text: string): boolean {
  return /[\p{Lu}\p{Ll}]/u.test(text);
}

/**
 * Returns the distinct words of a text. In scripts without spaces, we use single letters and pairs of letters, but no
 * Hiragana, which is mostly used for endings and particles.
 */
function splitWords(text: string): string[] {
  const words = splitIntoTokens(text).split(' ');
  return [...new Set(words)].filter((word) => word !== '' && !/\p{Script=Hiragana}/u.test(word));
}

function countCommonLetters(one: string, other: string): number {
  let count = 0;
  while (count < one.length && one[count] === other[count]) count += 1;
  return count;
}
