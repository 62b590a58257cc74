/**
 * Checks that messages say what a statement claims. A verbatim quotation proves only that terms were said; an invented name or number stays
 * invented. The rule is in docs/architecture/learning.md#evidence.
 */
import { tokenizeForIndex, tokenizeForQuery } from '../text/lexemes.ts';
import { normalizeWords } from '../text/normalized-text.ts';
import { functionTerms, userTerms } from './common-terms.ts';
import type { GroupMessage } from './group-messages.ts';
import { createDateCheck, takeDates } from './said-dates.ts';
import { findNumbers, findUnsaid, toNumberSet } from './said-numbers.ts';
import { findTerms } from './time-terms.ts';

/** `evidence`: too short, or the assistant's terms without a reply; `content`: it is about something else. */
export type SupportRefusal = 'evidence' | 'content' | 'names' | 'numbers';

export interface Claim {
  readonly text: string;
  /** The proper names that the model says the text has; null when it lists none. */
  readonly names: readonly string[] | null;
  readonly evidence: string;
  /** Of the message with the evidence. */
  readonly index: number;
}

export interface Support {
  readonly refusal: SupportRefusal | null;
  /** The evidence as it is stored: a short answer follows its question. */
  readonly evidence: string;
}

/**
 * Letters and digits of the shortest evidence, a letter of a script without spaces counted twice: `yes`, `the` and `はい` are shorter. A
 * shorter one counts when it opens the reply to a question.
 */
const minEvidenceWeight = 6;
/** How many messages before and after the one with the evidence may name what a memory names: `my sister`, and two turns later `Ana`. */
const contextMessages = 4;
/** Of the terms of a statement, those that were said are more than this part. */
const minSaidShare = 1 / 3;
/** Characters of the question that is stored with a short answer, from its end. */
const maxQuestionLength = 500;

/** `messages` in order, white space collapsed. */
export function createSupportCheck(messages: readonly GroupMessage[]): (claim: Claim) => Support {
  const contexts = new Map<number, Context>();
  return ({ text, names, evidence, index }) => {
    const message = messages[index];
    const question = message?.role === 'user' ? findQuestion(messages, index) : null;
    const isShort = weigh(evidence) < minEvidenceWeight;
    const refuse = (refusal: SupportRefusal | null): Support => ({ refusal, evidence: isShort ? `${question} ${evidence}` : evidence });
    if (message === undefined || (isShort && !(question !== null && message.text.startsWith(evidence)))) return refuse('evidence');
    if (message.role === 'assistant' && !hasReply(messages, index)) return refuse('evidence');
    const context = contexts.get(index) ?? readContext(messages, index);
    contexts.set(index, context);
    const statement = text.replace(userTerms, ' ');
    if (!hasSaidNumbers(statement, context)) return refuse('numbers');
    if (!hasSaidNames(statement, names, context)) return refuse('names');
    return refuse(hasSaidContent(statement, `${question ?? ''} ${evidence}`, context) ? null : 'content');
  };
}

/** Returns a predicate: whether all names and numbers of a sentence, or of a name, stand in `texts`. */
export function createNameCheck(texts: readonly string[]): (said: string, form: 'sentence' | 'name') => boolean {
  const text = texts.join('\n');
  const context: Context = {
    text: normalizeWords(text),
    tokens: toTokens(text),
    numbers: toNumberSet(findNumbers(text, { strict: false })),
    isSaidDate: ({ dates, numbers }) => numbers.length === 0 && dates.every((date) => text.includes(date)),
  };
  return (said, form) => {
    const statement = said.replace(userTerms, ' ').trim();
    const isCased = /[\p{Lu}\p{Ll}]/u.test(statement);
    const names = form === 'sentence' ? [] : isCased ? null : [statement];
    return hasSaidNumbers(statement, context) && hasSaidNames(statement, names, context);
  };
}

function weigh(evidence: string): number {
  const letters = evidence.match(/[\p{L}\p{N}]/gu) ?? [];
  const unspaced = evidence.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/gu) ?? [];
  return letters.length + unspaced.length;
}

/** The last question of the assistant's message that a user's message replies to. */
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

/** What was said around a message: by the user in it, shortly before and after it, and by the assistant directly before it. */
interface Context {
  readonly text: string;
  readonly tokens: Tokens;
  readonly numbers: ReadonlySet<string>;
  readonly isSaidDate: ReturnType<typeof createDateCheck>;
}

function readContext(messages: readonly GroupMessage[], index: number): Context {
  const message = messages[index];
  const before = previousMessage(messages, index);
  const nearby = messages
    .slice(Math.max(0, index - contextMessages), index + contextMessages + 1)
    .filter(
      (other) => other.conversationId === message?.conversationId && (other.role === 'user' || other === before || other === message),
    );
  const text = nearby.map((other) => other.text).join('\n');
  const near = `${before?.text ?? ''}\n${message?.text ?? ''}`;
  return {
    text: normalizeWords(text),
    tokens: toTokens(text),
    numbers: toNumberSet(findNumbers(text, { strict: false })),
    isSaidDate: createDateCheck(near, message?.createdAt ?? new Date(0), toNumberSet(findNumbers(near, { strict: false }))),
  };
}

/** Every number and date is said, or follows from the date of the message. */
function hasSaidNumbers(text: string, { numbers, isSaidDate }: Context): boolean {
  const { dates, rest } = takeDates(text);
  const unsaid = findUnsaid(findNumbers(rest, { strict: true }), numbers).map(Number);
  // In lower case these are rather verbs, planets and sauces.
  const { months, weekdays } = findTerms(rest.replace(/\b(?:may|march|mars|mai|mayo)\b/g, ' '));
  return isSaidDate({ dates, numbers: unsaid, months: [...months], weekdays: [...weekdays] });
}

/** Every proper name is said, perhaps in another inflection. */
function hasSaidNames(text: string, names: readonly string[] | null, context: Context): boolean {
  const listed = (names ?? []).filter((name) => text.includes(name));
  return [...listed.flatMap((name) => name.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []), ...findCapitalized(text, names === null)].every(
    (name) => isDateTerm(name) || isSaidName(name, context),
  );
}

function isDateTerm(word: string): boolean {
  const { months, weekdays } = findTerms(word);
  return /^\p{N}+$/u.test(word) || months.size + weekdays.size > 0;
}

const germanWords = /(?<!\p{L})(?:der|das|und|ist|nicht|mit|für|ein|eine|einen|auf|dem|wird|seine|ihre)(?!\p{L})/u;

/**
 * Terms with a capital letter that opens no sentence; in German this is every noun, so none. `withFirst` adds those that open one: without the
 * model's list any of them may be a name.
 */
function findCapitalized(text: string, withFirst: boolean): string[] {
  if (germanWords.test(text)) return [];
  let end = 0;
  return Array.from(text.matchAll(/[\p{L}\p{M}\p{N}]+/gu)).flatMap(({ 0: term, index }) => {
    const isFirst = end === 0 || /[.!?:;\n]/.test(text.slice(end, index));
    end = index + term.length;
    const isName = /\p{Lu}/u.test(term) && term.length > (isFirst ? 2 : 1) && (withFirst || !isFirst);
    return isName ? [term] : [];
  });
}

function isSaidName(name: string, { text, tokens }: Context): boolean {
  if (!/[\p{Lu}\p{Ll}]/u.test(name)) return text.includes(normalizeWords(name));
  return tokenizeForQuery(name)
    .split(' ')
    .every((token) => functionTerms.has(token) || tokens.startingLike(token).some((word) => isSameName(word, token)));
}

/** The same but for an ending: `Anna` and `Annas`, `Warszawa` and `Warszawie`. */
function isSameName(word: string, name: string): boolean {
  const common = countCommonLetters(word, name);
  const [shorter, longer] = word.length < name.length ? [word.length, name.length] : [name.length, word.length];
  if (common === shorter) return longer - shorter <= (shorter < 3 ? 0 : 3);
  const least = /\p{Script=Latin}/u.test(name) ? 5 : 3;
  return common >= least && longer - common <= 3;
}

/**
 * The evidence names something of the statement, and more than a third of the statement's terms were said. Its numbers and dates, which were
 * checked before, count as one word that was said.
 */
function hasSaidContent(text: string, evidence: string, { tokens }: Context): boolean {
  const all = [...new Set(splitTokens(text))];
  const terms = all.filter((word) => !/^\p{N}/u.test(word) && (word.length > 2 || !/\p{Ll}/u.test(word)) && !isDateTerm(word));
  const dates = all.some((word) => /^\p{N}/u.test(word)) ? 1 : 0;
  const quoted = toTokens(evidence);
  const said = terms.filter((word) => isSaidWord(word, tokens)).length + dates;
  // Short terms are rarely what a statement is about.
  const unsaid = terms.filter((word) => (word.length > 3 || !/\p{Ll}/u.test(word)) && !isSaidWord(word, tokens)).length;
  const isNamed = terms.length === 0 || dates > 0 || terms.some((word) => isSaidWord(word, quoted));
  return isNamed && said > minSaidShare * (said + unsaid);
}

/** `Laktose` in `laktoseintolerant`. */
const minCompoundPart = 5;
/** Article, prepositions, and the letter of the person of a verb. */
const arabicPrefix = /^[وف]?(?:[بك]?ال|لل|[بلكيتنا])(?=...)/u;

function isSaidWord(word: string, tokens: Tokens): boolean {
  if (tokens.has(word)) return true;
  if (!/\p{Ll}/u.test(word)) return word.length > 2 && tokens.contains(word.replace(arabicPrefix, ''));
  const isRelated = (other: string): boolean => {
    const common = countCommonLetters(word, other);
    return common >= 0.55 * Math.max(word.length, other.length) || (common === other.length && common >= minCompoundPart);
  };
  if (tokens.startingLike(word).some(isRelated)) return true;
  return word.length > 3 && tokens.contains(word);
}

interface Tokens {
  has(token: string): boolean;
  /** Whether a token contains these letters. */
  contains(letters: string): boolean;
  /** Tokens with the same first three letters; of shorter ones, the same token. */
  startingLike(token: string): readonly string[];
}

function toTokens(text: string): Tokens {
  const all = splitTokens(text);
  const set = new Set(all);
  const joined = all.join(' ');
  const byStart = Map.groupBy(set, (token) => token.slice(0, 3));
  return {
    has: (token) => set.has(token),
    contains: (letters) => joined.includes(letters),
    startingLike: (token) => byStart.get(token.slice(0, 3)) ?? [],
  };
}

/** Terms without those of grammar, for which Japanese has hiragana; of scripts without spaces, letters and pairs of letters. */
function splitTokens(text: string): string[] {
  return tokenizeForIndex(text)
    .split(' ')
    .filter((token) => token !== '' && !functionTerms.has(token) && !/\p{Script=Hiragana}/u.test(token));
}

function countCommonLetters(one: string, other: string): number {
  let count = 0;
  while (count < one.length && one[count] === other[count]) count += 1;
  return count;
}
