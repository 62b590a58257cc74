/**
 * Finds credentials by the name before them (`password=`, `the token is`), unless the value is code, a placeholder or
 * prose. Takes linear time in the length of the text.
 */
import type { Credential } from './credential-kinds.ts';

/** The maximum length of a value that the pattern matches. `findValueEnd` follows longer values to their end. */
const maxValueLength = 256;
const separator = `\\\\{0,4}["'\`\\]]{0,2}\\s{0,8}(?:=>|:=|==|=|:|：|＝|%3[DA]|是|为|為|は|는|은|(?<=\\s)(?:is|ist|lautet|est|es|è|é)(?=\\s))\\s{0,8}`;
/** An ampersand is part of a password unless it starts another `name=` or a character entity. */
const value = `(?<open>\\\\{0,4}["'\`])?(?<value>(?:[^\\s\\p{Cc}"'\`\\\\,;&<>(){}[\\]]|&(?![\\w.-]{1,64}=|#?\\w{1,8};)){4,${maxValueLength}})`;
/** Names that come before a password. Passwords have no specific format. */
const passwordNames =
  'password|passwd|passwort|kennwort|passphrase|pwd|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호';
/** Names that come before other secrets. Longer names may end with them, such as `x-goog-api-key`. */
const tokenNames = 'secret|token|(?:api|access|private|secret|encryption|signing|account)[ _-]?key';
const assigned = new RegExp(`(?:(?<password>${passwordNames})|(?:${tokenNames}))${separator}${value}`, 'dgiu');

/** No name is longer than this. */
const maxNameLength = 64;

export function findAssigned(text: string): Credential[] {
  const found: Credential[] = [];
  assigned.lastIndex = 0;
  for (let match = assigned.exec(text); match; match = assigned.exec(text)) {
    const { groups = {}, indices } = match;
    const [start, matchEnd] = indices?.groups?.value ?? [0, 0];
    const isPassword = groups.password !== undefined;
    const isQuoted = groups.open !== undefined;
    if (!isSecretValue(groups.value ?? '', { isPassword, isQuoted, next: text.charAt(matchEnd) })) continue;
    const end = findValueEnd(text, matchEnd, { start, isWhole: isPassword && isQuoted });
    found.push({ kind: 'assignment', start, end });
    // Skip the value, so that we don't match names inside it. Its last word may be the name of the next value, though.
    assigned.lastIndex = Math.max(matchEnd, end - maxNameLength);
  }
  return found;
}

const restOfValue = /[^\s\p{Cc}"'`\\,;&<>(){}[\]]{1,4096}/uy;
/** Matches the rest of a quoted passphrase after its first word. */
const restOfQuoted = /[^\p{Cc}"'`\\]{0,256}(?=\\{0,4}["'`])/uy;

/**
 * Finds the end of a value. The pattern above stops at its length limit and at the first space, so this continues to
 * the end of a long value, or to the closing quote of a passphrase.
 */
function findValueEnd(text: string, end: number, { start, isWhole }: { start: number; isWhole: boolean }): number {
  if (isWhole && isMatchAt(restOfQuoted, text, end)) return restOfQuoted.lastIndex;
  let at = end;
  while (at - start >= maxValueLength && isMatchAt(restOfValue, text, at)) at = restOfValue.lastIndex;
  return at;
}

function isMatchAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}

interface Surroundings {
  readonly isPassword: boolean;
  readonly isQuoted: boolean;
  /** The character that follows the value. */
  readonly next: string;
}

const dottedName = /^[A-Za-z_$][\w$]*(?:[.:/?!-]+[A-Za-z_$][\w$]*)*[.:?!]*$/;
const numberOnly = /^[\d.,:%+-]+$/;

/** Matches a secret AWS access key, which may look like a path. */
const accessKey = /^(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9/+]{40}$/;

/**
 * Reports whether a value after such a name is a secret. In source code and prose it's often a call, a variable, a type
 * or a length. So without quotes, a value must contain a digit and not look like code, or in the case of a password,
 * contain at least a special character. In quotes, we accept any password except common values, while other secrets
 * still need a digit.
 */
function isSecretValue(text: string, { isPassword, isQuoted, next }: Surroundings): boolean {
  if (isPlaceholder(text) || next === '(' || next === '[' || next === '<') return false;
  const bare = text.replace(/[.!?:]{1,3}$/, '');
  if (bare.length < 6) return false;
  if (isPassword) return isQuoted ? !commonValues.has(bare.toLowerCase()) : /[\d!@#$%^*+~]/.test(bare) && !isPath(bare);
  if (bare.length < 8 || numberOnly.test(bare)) return false;
  if (accessKey.test(bare)) return true;
  return hasDigit(bare) && (isQuoted || !isPath(bare));
}

/**
 * Recognizes code such as `process.env.KEY_2`. A text with a digit only counts as code if it contains separators, so
 * `hunter2` doesn't.
 */
function isPath(text: string): boolean {
  return /[.:/]/.test(text) && dottedName.test(text);
}

const commonValues = new Set(
  (
    'string password passwd passwort contraseña senha secret required optional undefined hidden invalid incorrect missing example ' +
    'unknown forgot change current boolean number object redacted removed default disabled enabled'
  ).split(' '),
);

/**
 * Matches placeholders for secrets, such as `${TOKEN}`, `<key>`, `your-api-key`, `xxxx` or `****`, and the placeholder
 * that masking inserts.
 */
const placeholderText =
  /^(?:[$%{<[(*#].*|your[-_ ]?.*|my[-_](?:api|secret|token|pass).*|(?:x|X|\*|\.|-|_|•|0)+|example.*|placeholder.*|changeme|redacted|.*_here|.*-here)$/i;

export function isPlaceholder(text: string): boolean {
  return placeholderText.test(text);
}

export function hasDigit(text: string): boolean {
  return /\d/.test(text);
}
