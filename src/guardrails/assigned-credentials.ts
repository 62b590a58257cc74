/**
 * Finds credentials by the name in front of them (`password=`, `the token is`). Values that are code, placeholders or
 * prose don't count. Takes linear time.
 */
import type { Credential } from './credential-kinds.ts';

/** How much of a value the pattern covers. For longer values, `findValueEnd` looks for the end. */
const maxValueLength = 256;
const separator = `\\\\{0,4}["'\`\\]]{0,2}\\s{0,8}(?:=>|:=|==|=|:|：|＝|%3[DA]|是|为|為|は|는|은|(?<=\\s)(?:is|ist|lautet|est|es|è|é)(?=\\s))\\s{0,8}`;
/** A value may contain `&`, but not where it starts the next `name=` or a character entity. */
const value = `(?<open>\\\\{0,4}["'\`])?(?<value>(?:[^\\s\\p{Cc}"'\`\\\\,;&<>(){}[\\]]|&(?![\\w.-]{1,64}=|#?\\w{1,8};)){4,${maxValueLength}})`;
/** Names that may precede a password. The password itself can look like anything. */
const passwordNames =
  'password|passwd|passwort|kennwort|passphrase|pwd|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호';
/**
 * Names that we recognize in front of other secrets. A longer name can also end with one of them, such as
 * `x-goog-api-key`.
 */
const tokenNames = 'secret|token|(?:api|access|private|secret|encryption|signing|account)[ _-]?key';
const assigned = new RegExp(`(?:(?<password>${passwordNames})|(?:${tokenNames}))${separator}${value}`, 'dgiu');

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
    // Skip the value, because a name inside it doesn't count. But step back a bit, because its last word may be the
    // name of the next value.
    assigned.lastIndex = Math.max(matchEnd, end - maxNameLength);
  }
  return found;
}

const restOfValue = /[^\s\p{Cc}"'`\\,;&<>(){}[\]]{1,4096}/uy;
/** Matches the rest of a passphrase in quotes, i.e. everything after its first word. */
const restOfQuoted = /[^\p{Cc}"'`\\]{0,256}(?=\\{0,4}["'`])/uy;

/**
 * Finds the end of a value. The pattern stops at its maximum length and at the first space, so we continue to the end
 * of a long value, or to the closing quote of a passphrase.
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
  readonly next: string;
}

const dottedName = /^[A-Za-z_$][\w$]*(?:[.:/?!-]+[A-Za-z_$][\w$]*)*[.:?!]*$/;
const numberOnly = /^[\d.,:%+-]+$/;

/** Matches an AWS secret access key, which can look like a path. */
const accessKey = /^(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9/+]{40}$/;

/**
 * Returns true if a value that follows a name such as `password` is a secret. In code and prose, it's often a call, a
 * variable, a type or a length. So a value without quotes has to contain a digit and must not look like code. For
 * passwords, a special character is enough in place of the digit. In quotes, we accept any password except common
 * values, but other secrets still need a digit.
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
 * Recognizes a path in code, such as `process.env.KEY_2`. A name without separators, such as `hunter2`, could be a
 * password and doesn't count.
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
 * Matches placeholders such as `${TOKEN}`, `<key>`, `your-api-key`, `xxxx` or `****`, and the placeholder that we
 * insert when masking.
 */
const placeholderText =
  /^(?:[$%{<[(*#].*|your[-_ ]?.*|my[-_](?:api|secret|token|pass).*|(?:x|X|\*|\.|-|_|•|0)+|example.*|placeholder.*|changeme|redacted|.*_here|.*-here)$/i;

export function isPlaceholder(text: string): boolean {
  return placeholderText.test(text);
}

export function hasDigit(text: string): boolean {
  return /\d/.test(text);
}
