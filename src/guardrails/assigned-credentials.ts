/**
 * Finds credentials by the name before them (`password=`, `the token is`), except values that are code, a placeholder or prose. Linear in the
 * length of the text.
 */
import type { Credential } from './credential-kinds.ts';

/** `name: value` in JSON, YAML, source, environment files, connection strings, queries; and `the password is value`. */
const maxValueLength = 256;
const separator = `\\\\{0,4}["'\`\\]]{0,2}\\s{0,8}(?:=>|:=|==|=|:|：|＝|%3[DA]|是|为|為|は|는|은|(?<=\\s)(?:is|ist|lautet|est|es|è|é)(?=\\s))\\s{0,8}`;
/** An ampersand belongs to a password unless it starts another `name=` or a character entity. */
const value = `(?<open>\\\\{0,4}["'\`])?(?<value>(?:[^\\s\\p{Cc}"'\`\\\\,;&<>(){}[\\]]|&(?![\\w.-]{1,64}=|#?\\w{1,8};)){4,${maxValueLength}})`;
/** Names before passwords, whose values have no specific format. */
const passwordNames =
  'password|passwd|passwort|kennwort|passphrase|pwd|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호';
/** Names before other secrets, also as the end of longer names such as `x-goog-api-key`. */
const tokenNames = 'secret|token|(?:api|access|private|secret|encryption|signing|account)[ _-]?key';
const assigned = new RegExp(`(?:(?<password>${passwordNames})|(?:${tokenNames}))${separator}${value}`, 'dgiu');

/** Names are no longer. */
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
    // Skips the value, so that names within it are not matched again; its last term may be the name of the next value.
    assigned.lastIndex = Math.max(matchEnd, end - maxNameLength);
  }
  return found;
}

const restOfValue = /[^\s\p{Cc}"'`\\,;&<>(){}[\]]{1,4096}/uy;
/** The rest of a quoted passphrase after its first term. */
const restOfQuoted = /[^\p{Cc}"'`\\]{0,256}(?=\\{0,4}["'`])/uy;

/** The end of a value: beyond the pattern's limit for long values, and the closing quote for passphrases. */
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
  /** The character after the value. */
  readonly next: string;
}

const dottedName = /^[A-Za-z_$][\w$]*(?:[.:/?!-]+[A-Za-z_$][\w$]*)*[.:?!]*$/;
const numberOnly = /^[\d.,:%+-]+$/;

/** A secret AWS access key, which may resemble a path. */
const accessKey = /^(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9/+]{40}$/;

/**
 * After such a name, source code and prose mostly have a call, a variable, a type or a length, not a secret. Without quotes a secret must
 * therefore contain a digit and not resemble a name; within quotes everything but common values is a secret.
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

/** `process.env.KEY_2`, but not `hunter2`: with a digit, only a text with separators counts as code. */
function isPath(text: string): boolean {
  return /[.:/]/.test(text) && dottedName.test(text);
}

const commonValues = new Set(
  (
    'string password passwd passwort contraseña senha secret required optional undefined hidden invalid incorrect missing example ' +
    'unknown forgot change current boolean number object redacted removed default disabled enabled'
  ).split(' '),
);

/** Placeholders for secrets: `${TOKEN}`, `<key>`, `your-api-key`, `xxxx`, `****`, and the one that masking inserts. */
const placeholderText =
  /^(?:[$%{<[(*#].*|your[-_ ]?.*|my[-_](?:api|secret|token|pass).*|(?:x|X|\*|\.|-|_|•|0)+|example.*|placeholder.*|changeme|redacted|.*_here|.*-here)$/i;

export function isPlaceholder(text: string): boolean {
  return placeholderText.test(text);
}

export function hasDigit(text: string): boolean {
  return /\d/.test(text);
}
