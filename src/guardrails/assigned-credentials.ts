/**
 * Finds credentials by the name in front of them (`password=`, `the token is`). Values that are code, placeholders or
 * prose don't count. Takes linear time.
 */
import type { Credential } from './credential-kinds.ts';

/**
 * The expression matches this many characters of a value at most. `findValueEnd` looks for the real end of longer
 * values.
 */
const maxValueLength = 256;
const separator = `\\\\{0,4}["'\`\\]]{0,2}\\s{0,8}(?:=>|:=|==|=|:|：|＝|%3[DA]|是|为|為|は|는|은|(?<=\\s)(?:is|ist|lautet|est|es|è|é)(?=\\s))\\s{0,8}`;
/** In URLs and HTML, `&` starts the next `name=` or a character entity. Elsewhere, it can be part of a secret. */
const value = `(?<open>\\\\{0,4}["'\`])?(?<value>(?:[^\\s\\p{Cc}"'\`\\\\,;&<>(){}[\\]]|&(?![\\w.-]{1,64}=|#?\\w{1,8};)){4,${maxValueLength}})`;
/**
 * The value after one of these names is a password. Passwords have no fixed format, so we can only recognize them by
 * their name.
 */
const passwordNames =
  'password|passwd|passwort|kennwort|passphrase|pwd|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호';
/** Names of other secrets. They also match at the end of a longer name, such as `x-goog-api-key`. */
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
    // Continue after the secret, so that we don't find names inside it. If the value is longer than the match, its last
    // part may be the name of the next secret, so go back by the length of a name.
    assigned.lastIndex = Math.max(matchEnd, end - maxNameLength);
  }
  return found;
}

const restOfValue = /[^\s\p{Cc}"'`\\,;&<>(){}[\]]{1,4096}/uy;
const restOfQuoted = /[^\p{Cc}"'`\\]{0,256}(?=\\{0,4}["'`])/uy;

/**
 * The pattern stops at the first space and at its maximum length. But a quoted passphrase ends at the closing quote,
 * and other values may be longer, so look for the real end.
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

/** AWS secret access keys can contain slashes, and would otherwise be mistaken for paths. */
const accessKey = /^(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9/+]{40}$/;

/**
 * Decides whether the value after a name such as `password` is really a secret. In code and prose, it's more often a
 * call, a variable, a type or a length. So unless the value is quoted, it has to contain a digit (or, for passwords, a
 * special character) and must not look like code. If it's quoted, we believe that it's a password unless it's a common
 * value, but other secrets still need a digit.
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
 * Recognizes code such as `process.env.KEY_2`. A separator is required, because something like `hunter2` might be a
 * password.
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
