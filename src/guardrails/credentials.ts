/**
 * Finds credentials in a text and replaces them with a placeholder, so that we never store keys. We recognize them by
 * their format (`credential-kinds.ts`), their context (PEM, the user part of a URL, an authorization header, a
 * command-line option), or the name in front of them (`assigned-credentials.ts`). Takes linear time.
 */
import { findAssigned, hasDigit, isPlaceholder } from './assigned-credentials.ts';
import { boundRuns, type Credential, maxRunLength, prefixedCredential, secretAddress } from './credential-kinds.ts';

const placeholder = '[credential]';

/**
 * Replacing a credential can reveal another one right behind it, so we search again until there are none left. Real
 * texts rarely have many credentials in a row, so we can limit the number of passes.
 */
const maxPasses = 8;

/** Replaces all credentials in a text with a placeholder. Idempotent. */
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

/** Returns the credentials in the order of the text and without overlaps. */
export function findCredentials(text: string): readonly Credential[] {
  const tokens = hasDigit(text) ? findTokens(text) : none;
  const framed = findFramed(text, tokens.length > 0);
  const assigned = findAssigned(text);
  if (tokens.length === 0 && framed.length === 0 && assigned.length === 0) return none;
  const found = [...tokens.flatMap(([start, end]) => findPrefixed(text, start, end)), ...framed, ...assigned];
  if (found.length === 0) return none;
  found.sort((a, b) => a.start - b.start || b.end - a.end);
  const separate: Credential[] = [];
  for (const credential of found) {
    const last = separate.at(-1);
    // Skip a credential that lies inside the previous one.
    if (!last || credential.start >= last.end) separate.push(followRun(text, credential));
    else if (credential.end > last.end) separate[separate.length - 1] = { ...last, end: followRun(text, credential).end };
  }
  return separate;
}

/** Shared by all texts without credentials, because nearly all texts have none. */
const none: readonly never[] = [];

const restOfRun = /[\w+/=~.%-]{1,4096}/y;

/** If the pattern has stopped at `maxRunLength`, finds the real end of the credential. */
function followRun(text: string, credential: Credential): Credential {
  if (credential.end - credential.start < maxRunLength) return credential;
  let { end } = credential;
  for (restOfRun.lastIndex = end; restOfRun.test(text); end = restOfRun.lastIndex);
  return { ...credential, end };
}

/**
 * Shorter tokens can't be credentials. The shortest ones are of the kind `slack`, and values of `authorization` headers
 * have at least 16 characters.
 */
const minTokenLength = 15;
/**
 * All characters that can occur in a credential with a known prefix or in an authorization header, which are all ASCII.
 */
const tokenCharacters = Uint8Array.from({ length: 128 }, (_, code) => Number(/[\w.~+/:=-]/.test(String.fromCharCode(code))));

/**
 * Finds tokens, which are runs of token characters that contain a digit and are long enough for a credential. Ordinary
 * text has few of them, so we rarely have to run the expression that matches all kinds of credentials, which is slow.
 * We check every 15th character, and look at its neighbors only if it could be part of a token.
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

/** Includes the character before the token, because the patterns check that they match at the start of a word. */
function findPrefixed(text: string, tokenStart: number, tokenEnd: number): Credential[] {
  const from = Math.max(0, tokenStart - 1);
  const found = matchEach(prefixedCredential, text.slice(from, tokenEnd), ({ 0: whole, index, groups = {} }) => ({
    kind: Object.keys(groups).find((kind) => groups[kind] !== undefined) ?? 'unknown',
    start: from + index,
    end: from + index + whole.length,
  }));
  return found.filter(({ start, end }) => hasDigit(text.slice(start, end)));
}

/** We don't use `matchAll`, because it takes 5 µs even if there's no match. */
function matchEach<Found>(pattern: RegExp, text: string, toFound: (match: RegExpExecArray) => Found): Found[] {
  const found: Found[] = [];
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) found.push(toFound(match));
  return found;
}

const keyBegin = /-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
const keyEnd = /-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----/g;
/** Matches a line of a private key whose END line is missing. It may be inside a JSON string or source code. */
const keyLine = /(?:\s|\\[nrt]|["'+]){0,16}[A-Za-z0-9+/=]{24,65536}/y;

/**
 * Finds PEM private keys. A BEGIN line has to be followed by an END line or something that looks like a key, because
 * people also write about keys.
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

/** Matches `user:password@` in a URL. Slashes aren't allowed, because `https://host:8080/@name` has no password. */
const inAddress = /:\/\/[^\s:/@"'`<>]{0,128}:([^\s/@"'`<>]{1,256})@/g;
/** Matches the signature in a URL that Azure Storage has signed. */
const inQuery = new RegExp(boundRuns('[?&]sig=([\\w%+/=-]{40,})'), 'g');
const inHeader = new RegExp(boundRuns('(?<![\\w-])(?:bearer|basic)[ \\t]{1,8}([\\w.~+/=-]{16,})'), 'gi');
/** Matches a password of any format in a connection string, which we recognize by another `name=value` before it. */
const inConnection = /(?<=[\w ]=[^\s;=,]{1,64}(?:;[ ]?|[ ]))(?:password|pwd)=([^\s;"'`&<>(){}[\]\\]{3,128})/gi;

/**
 * Matches command-line options with a secret, such as `--db-password value`. `inUserOption` matches `curl -u
 * name:value`.
 */
const inOption =
  /(?<![\w-])--(?:[a-z]{1,20}-){0,3}(?:password|passwd|pass|pwd|token|secret|api-?key|access-?key)[ \t]{1,4}["']?([^\s"'`]{6,256})/gi;
const inUserOption = /(?<![\w-])(?:-u|--user)[ \t=]{0,4}["']?[^\s:"'`]{1,64}:([^\s"'`]{6,256})/g;

/**
 * Finds credentials by their context. Searching for the literal part of an expression is much faster than running it,
 * and searching for a single character such as `=` is even faster, so we do that first.
 */
function findFramed(text: string, hasTokens: boolean): readonly Credential[] {
  const hasAddress = text.includes('://');
  const hasEquals = text.includes('=');
  const isSigned = hasEquals && text.includes('sig=');
  const isConnection = hasEquals && /(?:word|pwd)=/i.test(text);
  const hasHyphen = text.includes('-');
  const hasOption = hasHyphen && (text.includes('--') || text.includes('-u'));
  const hasKey = hasHyphen && text.includes('-----BEGIN ');
  if (!hasAddress && !isSigned && !hasTokens && !isConnection && !hasOption && !hasKey) return none;
  const find = (mayMatch: boolean, kind: string, ...patterns: readonly RegExp[]): Credential[] =>
    mayMatch ? patterns.flatMap((pattern) => findCaptured(kind, pattern, text)) : [];
  const found = [
    ...find(hasAddress, 'address', inAddress),
    ...find(isSigned, 'signed_address', inQuery),
    ...find(hasTokens, 'authorization', inHeader).filter(({ start, end }) => hasDigit(text.slice(start, end))),
    ...find(isConnection, 'connection_string', inConnection),
    ...find(hasOption, 'option', inOption, inUserOption).filter(({ start, end }) =>
      /^(?!-)(?=.*[\p{L}])(?=.*\d)/u.test(text.slice(start, end)),
    ),
  ].filter(({ start, end }) => !isPlaceholder(text.slice(start, end)));
  return [...find(hasAddress, 'webhook', secretAddress), ...(hasKey ? findPrivateKeys(text) : none), ...found];
}

/**
 * The pattern's first group is the credential. Without a group, it's the whole match. The pattern may match at most one
 * character after the credential.
 */
function findCaptured(kind: string, pattern: RegExp, text: string): Credential[] {
  return matchEach(pattern, text, ({ 0: whole, 1: secret = whole, index }) => {
    const start = index + whole.lastIndexOf(secret);
    return { kind, start, end: start + secret.length };
  });
}
