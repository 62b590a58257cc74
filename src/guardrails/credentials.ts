/**
 * Finds credentials in a text and replaces them with a placeholder, so that we don't store any keys. We recognize a
 * credential by its format (`credential-kinds.ts`), by its context (PEM, the user part of a URL, an authorization
 * header, a command-line option) or by the name before it (`assigned-credentials.ts`). Takes linear time in the length
 * of the text.
 */
import { findAssigned, hasDigit, isPlaceholder } from './assigned-credentials.ts';
import { boundRuns, type Credential, maxRunLength, prefixedCredential, secretAddress } from './credential-kinds.ts';

const placeholder = '[credential]';

/** Replacing a credential may reveal another one directly after it. Real texts don't have more than a few in a row. */
const maxPasses = 8;

/** Replaces each credential in the text. This is idempotent. */
export function maskCredentials(text: string): string {
  let masked = text;
  for (let pass = 0; pass < maxPasses; pass += 1) {
    const found = findCredentials(masked);
    if (found.length === 0) break;
    masked = replaceAll(masked, found);
  }
  return masked;
}

function replaceAll(text: string, found: readonly Credential[]): string {
  const chunks: string[] = [];
  let at = 0;
  for (const { start, end } of found) {
    chunks.push(text.slice(at, start), placeholder);
    at = end;
  }
  chunks.push(text.slice(at));
  return chunks.join('');
}

/** Returns the credentials of a text in order and without overlaps. */
export function findCredentials(text: string): Credential[] {
  const tokens = hasDigit(text) ? findTokens(text) : [];
  const found = [
    ...tokens.flatMap(([start, end]) => findPrefixed(text, start, end)),
    ...findFramed(text, tokens.length > 0),
    ...findAssigned(text),
  ].sort((a, b) => a.start - b.start || b.end - a.end);
  const separate: Credential[] = [];
  for (const credential of found) {
    const last = separate.at(-1);
    // Don't follow a credential inside another one, because we've already followed the outer one to its end.
    if (!last || credential.start >= last.end) separate.push(followRun(text, credential));
    else if (credential.end > last.end) separate[separate.length - 1] = { ...last, end: followRun(text, credential).end };
  }
  return separate;
}

const restOfRun = /[\w+/=~.%-]{1,4096}/y;

/** Extends a credential to the end of its run if the pattern had to stop at `maxRunLength`. */
function followRun(text: string, credential: Credential): Credential {
  if (credential.end - credential.start < maxRunLength) return credential;
  let { end } = credential;
  for (restOfRun.lastIndex = end; restOfRun.test(text); end = restOfRun.lastIndex);
  return { ...credential, end };
}

/**
 * The minimum length of a token. The shortest kind of credential is `slack`, and an `authorization` has at least 16
 * characters.
 */
const minTokenLength = 15;
/**
 * The ASCII characters that a token consists of. They include everything that the patterns in `credential-kinds.ts` and
 * authorization headers may contain.
 */
const tokenCharacters = Uint8Array.from({ length: 128 }, (_, code) => Number(/[\w.~+/:=-]/.test(String.fromCharCode(code))));

/**
 * Finds the tokens in a text, i.e. runs of token characters that contain a digit and are long enough for a credential.
 * Ordinary text has few of them, so we rarely have to run the slow expression for all kinds. We look at every 15th
 * character, and at its neighbors only if it belongs to a token.
 */
function findTokens(text: string): [start: number, end: number][] {
  const tokens: [number, number][] = [];
  let searchedTo = 0;
  for (let at = minTokenLength - 1; at < text.length; at += minTokenLength) {
    if (!isTokenAt(text, at)) continue;
    let start = at;
    while (start > searchedTo && isTokenAt(text, start - 1)) start -= 1;
    let end = at + 1;
    while (end < text.length && isTokenAt(text, end)) end += 1;
    if (end - start >= minTokenLength && hasDigit(text.slice(start, end))) tokens.push([start, end]);
    searchedTo = end;
    at = end;
  }
  return tokens;
}

function isTokenAt(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code < 128 && tokenCharacters[code] === 1;
}

/**
 * Finds the credentials in a token. We include the character before the token, because the pattern looks at that one
 * too.
 */
function findPrefixed(text: string, tokenStart: number, tokenEnd: number): Credential[] {
  const from = Math.max(0, tokenStart - 1);
  const found = matchEach(prefixedCredential, text.slice(from, tokenEnd), ({ 0: whole, index, groups = {} }) => ({
    kind: Object.keys(groups).find((kind) => groups[kind] !== undefined) ?? 'unknown',
    start: from + index,
    end: from + index + whole.length,
  }));
  return found.filter(({ start, end }) => hasDigit(text.slice(start, end)));
}

/** Works like `matchAll`, but `matchAll` takes 5 µs even if there's no match. */
function matchEach<Found>(pattern: RegExp, text: string, toFound: (match: RegExpExecArray) => Found): Found[] {
  const found: Found[] = [];
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) found.push(toFound(match));
  return found;
}

const keyBegin = /-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
const keyEnd = /-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
/** Matches a line of a truncated key, which may also be inside JSON or source code. */
const keyLine = /(?:\s|\\[nrt]|["'+]){0,16}[A-Za-z0-9+/=]{24,65536}/y;

/**
 * Finds private keys in PEM. If a BEGIN line is followed by neither an END line nor lines of a key, somebody only
 * mentions it.
 */
function findPrivateKeys(text: string): Credential[] {
  const toLine = ({ 0: line, index }: RegExpExecArray) => ({ start: index, end: index + line.length });
  const begins = matchEach(keyBegin, text, toLine);
  if (begins.length === 0) return [];
  const ends = matchEach(keyEnd, text, toLine);
  const found: Credential[] = [];
  let next = 0;
  begins.forEach(({ start, end: bodyStart }, index) => {
    while (next < ends.length && (ends[next]?.start ?? 0) < bodyStart) next += 1;
    const end = ends[next];
    const nextBegin = begins[index + 1]?.start ?? text.length;
    const limit = end !== undefined && end.start < nextBegin ? end.end : findLinesEnd(text, bodyStart, nextBegin);
    if (limit > bodyStart) found.push({ kind: 'private_key', start, end: limit });
  });
  return found;
}

function findLinesEnd(text: string, from: number, limit: number): number {
  let at = from;
  for (;;) {
    keyLine.lastIndex = at;
    if (at >= limit || !keyLine.test(text)) return Math.min(at, limit);
    at = keyLine.lastIndex;
  }
}

/**
 * Matches `user:password@` in a URL. Neither part may contain a slash, because `https://host:8080/@name` has no
 * password.
 */
const inAddress = /:\/\/[^\s:/@"'`<>]{0,128}:([^\s/@"'`<>]{1,256})@/g;
/** Matches the signature of a URL that Azure Storage has signed. */
const inQuery = new RegExp(boundRuns('[?&]sig=([\\w%+/=-]{40,})'), 'g');
const inHeader = new RegExp(boundRuns('(?<![\\w-])(?:bearer|basic)[ \\t]{1,8}([\\w.~+/=-]{16,})'), 'gi');
/** After another `name=value` of a connection string, we accept any value, even if it only consists of letters. */
const inConnection = /(?<=[\w ]=[^\s;=,]{1,64}(?:;[ ]?|[ ]))(?:password|pwd)=([^\s;"'`&<>(){}[\]\\]{3,128})/gi;

/** Matches command-line options such as `--db-password value` or `curl -u name:value`. */
const inOption =
  /(?<![\w-])--(?:[a-z]{1,20}-){0,3}(?:password|passwd|pass|pwd|token|secret|api-?key|access-?key)[ \t]{1,4}["']?([^\s"'`]{6,256})/gi;
const inUserOption = /(?<![\w-])(?:-u|--user)[ \t=]{0,4}["']?[^\s:"'`]{1,64}:([^\s"'`]{6,256})/g;

/**
 * Finds credentials by their context. We only run an expression if the text contains its literal part, because
 * searching for a literal is much faster.
 */
function findFramed(text: string, hasTokens: boolean): Credential[] {
  const find = (mayMatch: boolean, kind: string, ...patterns: readonly RegExp[]): Credential[] =>
    mayMatch ? patterns.flatMap((pattern) => findCaptured(kind, pattern, text)) : [];
  const hasAddress = text.includes('://');
  const found = [
    ...find(hasAddress, 'address', inAddress),
    ...find(text.includes('sig='), 'signed_address', inQuery),
    ...find(hasTokens, 'authorization', inHeader).filter(({ start, end }) => hasDigit(text.slice(start, end))),
    ...find(text.includes('=') && /(?:word|pwd)=/i.test(text), 'connection_string', inConnection),
    ...find(text.includes('--') || text.includes('-u'), 'option', inOption, inUserOption).filter(({ start, end }) =>
      /^(?!-)(?=.*[\p{L}])(?=.*\d)/u.test(text.slice(start, end)),
    ),
  ].filter(({ start, end }) => !isPlaceholder(text.slice(start, end)));
  const privateKeys = text.includes('-----BEGIN ') ? findPrivateKeys(text) : [];
  return [...find(hasAddress, 'webhook', secretAddress), ...privateKeys, ...found];
}

/**
 * Returns the text of the pattern's first group, which ends at most one character before the match. Without a group,
 * this is the whole match.
 */
function findCaptured(kind: string, pattern: RegExp, text: string): Credential[] {
  return matchEach(pattern, text, ({ 0: whole, 1: secret = whole, index }) => {
    const start = index + whole.lastIndexOf(secret);
    return { kind, start, end: start + secret.length };
  });
}
