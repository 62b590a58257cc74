/**
 * Finds credentials in a text, and replaces them by a placeholder: what is stored, and what a content rule looks at, must not carry a key
 * on (decisions 9). Three ways to know one: its form (`credential-kinds.ts`), its frame (PEM, the user part of an address, an
 * authorization header), and the name before it (`password=`), where a value that looks like code, a placeholder or prose is none.
 *
 * Linear in the length of the text, whatever it holds.
 */
import { boundRuns, longestRun, passwordNames, prefixedCredential, secretAddress, tokenNames } from './credential-kinds.ts';

export interface Credential {
  readonly kind: string;
  /** Of the secret alone, where a name or an address stands around it. */
  readonly start: number;
  readonly end: number;
}

const placeholder = '[credential]';

/** What replacing one credential may lay bare: another that stood glued to its end. More than a few in a row are nobody's text. */
const mostPasses = 8;

/** The text with each credential replaced. Doing it twice changes nothing more. */
export function maskCredentials(text: string): string {
  let masked = text;
  for (let pass = 0; pass < mostPasses; pass += 1) {
    const found = findCredentials(masked);
    if (found.length === 0) break;
    masked = replaceAll(masked, found);
  }
  return masked;
}

function replaceAll(text: string, found: readonly Credential[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const { start, end } of found) {
    pieces.push(text.slice(at, start), placeholder);
    at = end;
  }
  pieces.push(text.slice(at));
  return pieces.join('');
}

/** In the order of the text, none within another. */
export function findCredentials(text: string): Credential[] {
  const found = [
    ...findPrefixed(text),
    ...captured('webhook', secretAddress, text),
    ...findPrivateKeys(text),
    ...findFramed(text),
    ...findAssigned(text),
  ]
    .map((credential) => followRun(text, credential))
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const apart: Credential[] = [];
  for (const credential of found) {
    const last = apart.at(-1);
    if (!last || credential.start >= last.end) apart.push(credential);
    else if (credential.end > last.end) apart[apart.length - 1] = { ...last, end: credential.end };
  }
  return apart;
}

const restOfRun = /[\w+/=~.%-]{1,4096}/y;

/** A credential as long as a repetition may read goes on to the end of its run. */
function followRun(text: string, credential: Credential): Credential {
  if (credential.end - credential.start < longestRun) return credential;
  let { end } = credential;
  for (restOfRun.lastIndex = end; restOfRun.test(text); end = restOfRun.lastIndex);
  return { ...credential, end };
}

function findPrefixed(text: string): Credential[] {
  return Array.from(text.matchAll(prefixedCredential), ({ 0: whole, index, groups = {} }) => ({
    kind: Object.keys(groups).find((kind) => groups[kind] !== undefined) ?? 'unknown',
    start: index,
    end: index + whole.length,
  })).filter(({ start, end }) => hasDigit(text.slice(start, end)));
}

const keyBegin = /-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
const keyEnd = /-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
/** A line of a key that was cut off before its end, also within JSON or source text. */
const keyLine = /(?:\s|\\[nrt]|["'+]){0,16}[A-Za-z0-9+/=]{24,65536}/y;

/** Private keys in PEM. A BEGIN with neither END nor lines of a key is only a mention. */
function findPrivateKeys(text: string): Credential[] {
  const begins = Array.from(text.matchAll(keyBegin), ({ 0: line, index }) => ({ start: index, behind: index + line.length }));
  if (begins.length === 0) return [];
  const ends = Array.from(text.matchAll(keyEnd), ({ 0: line, index }) => ({ start: index, behind: index + line.length }));
  const found: Credential[] = [];
  let next = 0;
  begins.forEach(({ start, behind }, index) => {
    while (next < ends.length && (ends[next]?.start ?? 0) < behind) next += 1;
    const end = ends[next];
    const nextBegin = begins[index + 1]?.start ?? text.length;
    const limit = end !== undefined && end.start < nextBegin ? end.behind : endOfLines(text, behind, nextBegin);
    if (limit > behind) found.push({ kind: 'private_key', start, end: limit });
  });
  return found;
}

function endOfLines(text: string, from: number, limit: number): number {
  let at = from;
  for (;;) {
    keyLine.lastIndex = at;
    if (at >= limit || !keyLine.test(text)) return Math.min(at, limit);
    at = keyLine.lastIndex;
  }
}

/** `user:password@` of an address. Neither part may hold a slash: `https://host:8080/@name` has no password. */
const inAddress = /:\/\/[^\s:/@"'`<>]{0,128}:([^\s/@"'`<>]{1,256})@/g;
/** The signature of an address that Azure Storage signed. */
const inQuery = new RegExp(boundRuns('[?&]sig=([\\w%+/=-]{40,})'), 'g');
const inHeader = new RegExp(boundRuns('(?<![\\w-])(?:bearer|basic)[ \\t]{1,8}([\\w.~+/=-]{16,})'), 'gi');
/** Behind another `name=value` of a connection string the value is what it is, letters alone too. */
const inConnection = /(?<=[\w ]=[^\s;=,]{1,64}(?:;[ ]?|[ ]))(?:password|pwd)=([^\s;"'`&<>(){}[\]\\]{3,128})/gi;

function findFramed(text: string): Credential[] {
  return [
    ...captured('address', inAddress, text),
    ...captured('signed_address', inQuery, text),
    ...captured('authorization', inHeader, text).filter(({ start, end }) => hasDigit(text.slice(start, end))),
    ...captured('connection_string', inConnection, text),
  ].filter(({ start, end }) => !isPlaceholder(text.slice(start, end)));
}

/** `name: value` in JSON, YAML, source, environment files, connection strings, queries; and `the password is value`. */
const separator = `\\\\{0,4}["'\`\\]]{0,2}\\s{0,8}(?:=>|:=|==|=|:|：|(?<=\\s)(?:is|ist|lautet|est|es|è|é)(?=\\s))\\s{0,8}`;
const value = `(?<open>\\\\{0,4}["'\`])?(?<value>[^\\s\\p{Cc}"'\`\\\\,;&<>(){}[\\]]{4,256})`;
const assigned = new RegExp(`(?:(?<password>${passwordNames.join('|')})|(?:${tokenNames.join('|')}))${separator}${value}`, 'dgiu');

function findAssigned(text: string): Credential[] {
  return Array.from(text.matchAll(assigned), ({ groups = {}, indices }) => {
    const [start, end] = indices?.groups?.value ?? [0, 0];
    const isSecret = isSecretValue(groups.value ?? '', {
      isPassword: groups.password !== undefined,
      isQuoted: groups.open !== undefined,
      next: text.charAt(end),
    });
    return isSecret ? [{ kind: 'assignment', start, end }] : [];
  }).flat();
}

interface Surroundings {
  readonly isPassword: boolean;
  readonly isQuoted: boolean;
  /** The character behind the value. */
  readonly next: string;
}

const dottedName = /^[A-Za-z_$][\w$]*(?:[.:/?!-]+[A-Za-z_$][\w$]*)*[.:?!]*$/;
const numberOnly = /^[\d.,:%+-]+$/;

/**
 * What source code and prose write behind such a name is mostly no secret: a call, a variable, a type, a number of characters. Without
 * quotes a value must therefore hold a digit and not read like a name; within quotes it is one unless it is a common word.
 */
function isSecretValue(text: string, { isPassword, isQuoted, next }: Surroundings): boolean {
  if (isPlaceholder(text) || next === '(' || next === '[' || next === '<') return false;
  const bare = text.replace(/[.!?:]{1,3}$/, '');
  if (bare.length < 6) return false;
  if (isPassword) return isQuoted ? !commonValues.has(bare.toLowerCase()) : /[\d!@#$%^*+~]/.test(bare) && !isPath(bare);
  if (bare.length < 8 || numberOnly.test(bare)) return false;
  return hasDigit(bare) && (isQuoted || !isPath(bare));
}

/** `process.env.KEY_2`, but not `hunter2`: only something with a dot or the like reads as code although a digit is in it. */
function isPath(text: string): boolean {
  return /[.:/]/.test(text) && dottedName.test(text);
}

const commonValues = new Set([
  'string',
  'password',
  'passwd',
  'passwort',
  'contraseña',
  'senha',
  'secret',
  'required',
  'optional',
  'undefined',
  'hidden',
  'invalid',
  'incorrect',
  'missing',
  'example',
  'unknown',
  'forgot',
  'change',
  'current',
  'boolean',
  'number',
  'object',
  'redacted',
  'removed',
  'default',
  'disabled',
  'enabled',
]);

/** Text that stands where a secret will: `${TOKEN}`, `<key>`, `your-api-key`, `xxxx`, `****`, our own placeholder. */
const placeholderText =
  /^(?:[$%{<[(*#].*|your[-_ ]?.*|my[-_](?:api|secret|token|pass).*|(?:x|X|\*|\.|-|_|•|0)+|example.*|placeholder.*|changeme|redacted|.*_here|.*-here)$/i;

function isPlaceholder(text: string): boolean {
  return placeholderText.test(text);
}

function hasDigit(text: string): boolean {
  return /\d/.test(text);
}

/** What the first group of `pattern` caught at the end of a match, but for at most one character; the whole match where it has no group. */
function captured(kind: string, pattern: RegExp, text: string): Credential[] {
  return Array.from(text.matchAll(pattern), ({ 0: whole, 1: secret = whole, index }) => {
    const start = index + whole.lastIndexOf(secret);
    return { kind, start, end: start + secret.length };
  });
}
