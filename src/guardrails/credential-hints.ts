/**
 * Finds in one pass which kinds of credentials a text may contain, so that ordinary text is not searched by the regular expressions: they
 * take 40 µs per 1,000 characters, the pass takes 3 to 7. A hint may be wrong; a credential without its hint is missed, so every new kind of
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

const letter = 1;
const digit = 2;
const mark = 3;
const dash = 4;
const assignment = 5;

/** Classes of the ASCII characters of terms: all that `credential-kinds.ts` and an authorization may contain. Others, 0, end a term. */
const classes = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[A-Za-z_]/.test(character)) return letter;
  if (/\d/.test(character)) return digit;
  if (/[.~+/]/.test(character)) return mark;
  if (character === '-') return dash;
  return /[:=]/.test(character) ? assignment : 0;
});

/** Null when the text contains no credential. */
export function findHints(text: string): CredentialHints | null {
  const terms: [number, number][] = [];
  let [assigned, connection, option, authorization] = [false, false, false, false];
  let start = 0;
  let digitAt = -1;
  /** Characters after names. More than those read so far take longer than the search. */
  let checked = 0;
  const endTerm = (at: number): void => {
    if (at - start < minTermLength || digitAt < start) return;
    terms.push([start, at]);
    authorization ||= isMatchAt(afterScheme, text, start);
  };
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const kind = code < 128 ? classes[code] : 0;
    if (kind === letter || kind === mark) continue;
    if (kind === digit) {
      digitAt = at;
      continue;
    }
    if (kind === dash) {
      option ||= isMatchAt(commandOption, text, at);
      continue;
    }
    if (isAfterName(text, at)) {
      if (!assigned) {
        const match = matchAt(assignedValue, text, at);
        checked += match?.[0].length ?? 0;
        assigned = match !== null && (mayBeSecret(match) || checked > at + maxValueLength);
      }
      connection ||= code === equalsSign;
    }
    if (kind === assignment) continue;
    endTerm(at);
    start = at + 1;
  }
  endTerm(text.length);
  const address = text.includes('://');
  const signature = text.includes('sig=');
  const privateKey = text.includes('-----BEGIN ');
  if (terms.length === 0 && !(assigned || connection || option || address || signature || privateKey)) return null;
  return { terms, authorization, assigned, connection, option, address, signature, privateKey };
}

const equalsSign = 0x3d;
const afterScheme = /(?<=(?:bearer|basic)[ \t]{1,8})/iy;
const commandOption = /(?<![\w-])-(?:u|-[a-z])/iy;
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
