/**
 * Finds quickly which kinds of credentials a text may contain, so that ordinary text is not searched by the regular expressions: they
 * take 40 µs per 1,000 characters, this takes 2. A hint may be wrong; a credential without its hint is missed, so every new kind of
 * credential must be covered here (`test/guardrails/credential-hints.test.ts` compares both searches).
 */
import { maxValueLength, separator, value } from './assigned-credentials.ts';
import { passwordNames, tokenNames } from './credential-kinds.ts';

export interface CredentialHints {
  /** Start and end of the runs of term characters that are long enough for a credential and have a digit. */
  readonly terms: readonly (readonly [start: number, end: number])[];
  /** One of these terms follows `bearer` or `basic`. */
  readonly authorization: boolean;
  /** A name such as `token` before a value. */
  readonly assigned: boolean;
  /** A name directly before an equals sign. */
  readonly connection: boolean;
  /** An option of a command. */
  readonly option: boolean;
  readonly address: boolean;
  readonly signature: boolean;
  readonly privateKey: boolean;
}

/** The shortest kind is `slack`; `authorization` has 16 characters. */
const minTermLength = 15;

/** Null when the text contains no credential. */
export function findHints(text: string): CredentialHints | null {
  const terms = /\d/.test(text) ? findTerms(text) : [];
  const { assigned, connection } = findNames(text);
  const hasDash = text.includes('-');
  const option = hasDash && hasOption(text);
  const address = text.includes('://');
  const signature = text.includes('=') && text.includes('sig=');
  const privateKey = hasDash && text.includes('-----BEGIN ');
  if (terms.length === 0 && !assigned && !connection && !option && !address && !signature && !privateKey) return null;
  const authorization = terms.some(([start]) => isMatchAt(afterScheme, text, start));
  return { terms, assigned, connection, authorization, option, address, signature, privateKey };
}

/** ASCII characters of terms: all that `credential-kinds.ts` and an authorization may contain. */
const termCharacters = Uint8Array.from({ length: 128 }, (_, code) => Number(/[\w.~+/:=-]/.test(String.fromCharCode(code))));

/** Reads one character of each possible term, and the others only around a term character. */
function findTerms(text: string): [number, number][] {
  const terms: [number, number][] = [];
  let searchedTo = 0;
  for (let at = minTermLength - 1; at < text.length; at += minTermLength) {
    if (!isTermAt(text, at)) continue;
    let start = at;
    while (start > searchedTo && isTermAt(text, start - 1)) start -= 1;
    let end = at + 1;
    while (end < text.length && isTermAt(text, end)) end += 1;
    if (end - start >= minTermLength && /\d/.test(text.slice(start, end))) terms.push([start, end]);
    searchedTo = end;
    at = end;
  }
  return terms;
}

function isTermAt(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code < 128 && termCharacters[code] === 1;
}

const afterScheme = /(?<=(?:bearer|basic)[ \t]{1,8})/iy;
const commandOption = /(?<![\w-])-(?:u|-[a-z])/iy;

function hasOption(text: string): boolean {
  for (let at = text.indexOf('-'); at >= 0; at = text.indexOf('-', at + 1)) if (isMatchAt(commandOption, text, at)) return true;
  return false;
}

/**
 * How a separator of `assigned-credentials.ts` may start. Those of ASCII are found by `indexOf`, in a tenth of the time; V8 does not search a
 * text of Latin-1 for the others.
 */
const asciiSeparators = ['=', ':', '%3'] as const;
const otherSeparator = /[：＝是为為は는은]/g;
/** With the flag `u`, as there, it takes twice the time. */
const wordSeparator = /\s(?:i[sſ]t?|lautet|e[sſ]t?|[èé])\s/gi;
/** What may stand between a name and a separator, and at most how much of it. */
const filler = /[\\"'`\]\s]/;
const maxFiller = 14;

function findNames(text: string): Pick<CredentialHints, 'assigned' | 'connection'> {
  let [assigned, connection] = [false, false];
  /** Characters after names, of one kind of separator. More than those read so far take longer than the search. */
  let checked = 0;
  const check = (separatorAt: number): void => {
    let at = separatorAt;
    while (at > 0 && separatorAt - at < maxFiller && filler.test(text.charAt(at - 1))) at -= 1;
    if (!isAfterName(text, at)) return;
    connection ||= text[at] === '=';
    if (assigned) return;
    const match = matchAt(assignedValue, text, at);
    checked += match?.[0].length ?? 0;
    assigned = match !== null && (mayBeSecret(match) || checked > at + maxValueLength);
  };
  for (const sign of asciiSeparators) {
    checked = 0;
    for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + 1)) check(at);
  }
  for (const pattern of [otherSeparator, wordSeparator]) {
    checked = 0;
    pattern.lastIndex = 0;
    for (let found = pattern.exec(text); found && !assigned; found = pattern.exec(text)) {
      // The space after one word may be the space before the next.
      if (found[0].length > 2) pattern.lastIndex -= 1;
      check(found.index);
    }
  }
  return { assigned, connection };
}

/** The last two characters of the names, which are no metacharacters. */
const endings = [...new Set([...passwordNames, ...tokenNames].map((name) => name.slice(-2)))];
const ending = new RegExp(`(?:${endings.join('|')})$`, 'iu');
/** By the codes of two ASCII characters. */
const asciiEndings = new Uint8Array(128 * 128);
/** By the code of a last character that is not ASCII. Tables, since a set takes 10 ns for each character of a Chinese text. */
const otherEnds = new Uint8Array(0x1_0000);
for (const [former = '', last = ''] of endings) {
  for (const second of [last, last.toUpperCase()]) {
    otherEnds[second.charCodeAt(0)] = 1;
    for (const first of [former, former.toUpperCase()]) asciiEndings[first.charCodeAt(0) * 128 + second.charCodeAt(0)] = 1;
  }
}

/** Whether the two characters before `at` may end a name. */
function isAfterName(text: string, at: number): boolean {
  if (at < 2) return false;
  const last = text.charCodeAt(at - 1);
  if (last >= 128) return otherEnds[last] === 1;
  const former = text.charCodeAt(at - 2);
  return former < 128 ? asciiEndings[former * 128 + last] === 1 : ending.test(text.slice(at - 2, at));
}

const assignedValue = new RegExp(`${separator}${value}`, 'iuy');

/** Whether `assigned-credentials.ts` may take the value for a secret: it is quoted, long, or has a digit or a mark. */
function mayBeSecret({ groups }: RegExpExecArray): boolean {
  return groups?.open !== undefined || /[\d!@#$%^*+~]|[A-Za-z/]{40}/.test(groups?.value ?? '');
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function isMatchAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}
