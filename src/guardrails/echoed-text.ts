/**
 * Removes the parts of a vendor's error message that quote the request, because we keep and show these messages where
 * prompts aren't allowed. Names of parameters, models and roles are kept. This is best effort, because we can't
 * recognize a prompt that the vendor has rephrased.
 */

const placeholder = '[…]';
/**
 * Quotes longer than this are removed even if they aren't in the request, because the vendor may have changed or
 * shortened the text.
 */
const maxQuotedLength = 40;
/** With fewer consecutive words in common, a message may match the request by coincidence. */
const quotedWords = 4;
const minRunLength = 12;
/** If a word of the message is at least this long and the request contains it too, we treat it as a quote. */
const quotedWordLength = 16;
/** Longer runs without a space are data such as base64. */
const data = /\S{81,}/g;

/**
 * Removes all quotes of the request from a message. `request` has to be the result of `readRequestText` or
 * `collapseSpace`.
 */
export function removeEchoes(text: string, request: string): string {
  const withoutRuns = removeRuns(collapseSpace(unescapeJson(text)).replaceAll(data, placeholder), request);
  return removeSegments(removeQuotes(withoutRuns, request), request).replaceAll(/\[…\](?:\s*\[…\])+/g, placeholder);
}

const closingQuotes: Readonly<Record<string, string>> = { '“': '”', '‘': '’', '«': '»', '「': '」' };
/** Matches an opening quotation mark. After a letter or digit, it's an apostrophe. */
const opening = /(?<![\p{L}\p{N}])["'`“‘«「]/gu;

function removeQuotes(text: string, request: string): string {
  const chunks: string[] = [];
  let at = 0;
  for (const { 0: mark, index } of text.matchAll(opening)) {
    if (index < at) continue;
    const start = index + 1;
    const end = findClosing(text, closingQuotes[mark] ?? mark, start);
    const quoted = text.slice(start, end ?? text.length);
    const isRemoved =
      quoted.length > maxQuotedLength || quoted.includes(placeholder) || isEchoed(quoted, request) || hasPair(quoted, request);
    // If there's no closing quotation mark, this isn't a quote or the message was cut off. Unless we have to remove the
    // text, skip the mark and go on.
    if (end === null && !isRemoved) continue;
    chunks.push(text.slice(at, start), isRemoved ? placeholder : quoted);
    at = end ?? text.length;
  }
  chunks.push(text.slice(at));
  return chunks.join('');
}

const minPairLength = 6;

/**
 * Returns true if two consecutive words of a quote are in the request. The vendor may have shortened the quote, so we
 * don't compare all of it.
 */
function hasPair(quoted: string, request: string): boolean {
  const words = quoted.split(' ');
  return words.some((word, index) => {
    const pair = `${word} ${words[index + 1] ?? ''}`;
    return index + 1 < words.length && pair.length >= minPairLength && request.includes(pair);
  });
}

function findClosing(text: string, mark: string, from: number): number | null {
  for (let at = text.indexOf(mark, from); at !== -1; at = text.indexOf(mark, at + 1)) {
    const isEscaped = text[at - 1] === '\\';
    if (!isEscaped && !/^[\p{L}\p{N}]/u.test(text.slice(at + 1, at + 3))) return at;
  }
  return null;
}

const delimiters = /([:：;,，。=(){}<>|]|\.{3}|(?<!\[)…)/;

const segmentCore = /[^\s"'`“”‘’«»「」](?:.*[^\s"'`“”‘’«»「」])?/su;

/**
 * Vendors also quote the request without quotation marks, as in `Invalid value: <text>`. Removes the text between two
 * delimiters if it's in the request.
 */
function removeSegments(text: string, request: string): string {
  const [first = '', ...rest] = text.split(delimiters);
  return first + rest.map((segment) => segment.replace(segmentCore, (core) => (isEchoed(core, request) ? placeholder : core))).join('');
}

const words = /[^\s!-,./:-@[-^`{-~\u2000-\u206f\u3000-\u303f\uff00-\uff20]+/g;

function removeRuns(text: string, request: string): string {
  const found = [...text.matchAll(words)].map(({ 0: word, index }) => ({ word, start: index, end: index + word.length }));
  const isQuoted = found.map(({ word }) => word.length >= quotedWordLength && isEchoed(word, request));
  for (const [first, { start }] of found.entries()) {
    const end = found[first + quotedWords - 1]?.end ?? start;
    if (end - start >= minRunLength && request.includes(text.slice(start, end))) isQuoted.fill(true, first, first + quotedWords);
  }
  const chunks: string[] = [];
  let at = 0;
  for (const [position, { start, end }] of found.entries()) {
    if (!isQuoted[position]) continue;
    if (position === 0 || !isQuoted[position - 1]) chunks.push(text.slice(at, start), placeholder);
    at = end;
  }
  chunks.push(text.slice(at));
  return chunks.join('');
}

/**
 * We check this many occurrences of a text at most. A name rarely occurs more often, so we then treat the text as a
 * quote.
 */
const maxOccurrences = 50;

/** Returns true if the request contains the text. Property names and the values of `model` and `role` don't count. */
function isEchoed(text: string, request: string): boolean {
  if (!/[\p{L}]|\d{5}/u.test(text) || text.length < 2) return false;
  let count = 0;
  for (let at = request.indexOf(text); at !== -1; at = request.indexOf(text, at + 1)) {
    count += 1;
    const before = request.slice(Math.max(0, at - 12), at);
    const after = request.slice(at + text.length, at + text.length + 3);
    const isName = before.endsWith('"') && /^" ?:/.test(after);
    const isValue = /"(?:model|role)" ?: ?"$/.test(before) && after.startsWith('"');
    if ((!isName && !isValue) || count > maxOccurrences) return true;
  }
  return false;
}

/** We don't compare error messages with longer requests, because that would take too long. */
const maxRequestLength = 256 * 1_024;
const readTexts = new WeakMap<Buffer, string>();

/**
 * Returns the text of a request body, or null if it's too long. Leaves out base64 data. Unescapes twice, because tool
 * arguments are JSON inside of a string.
 */
export function readRequestText(body: Buffer): string | null {
  const known = readTexts.get(body);
  if (known !== undefined) return known;
  const bytes = body.length > minDataBytes ? omitData(body) : body;
  if (bytes === null || bytes.length > maxRequestLength) return null;
  const text = collapseSpace(unescapeJson(unescapeJson(bytes.toString('utf8'))));
  readTexts.set(body, text);
  return text;
}

/** Like `readRequestText`, but for the texts of a media request. */
export function joinRequestTexts(texts: readonly string[]): string | null {
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  return length > maxRequestLength ? null : collapseSpace(texts.join(' '));
}

const minDataBytes = 4_096;
const quote = 0x22;

/**
 * Removes long strings whose first 4 KiB are printable ASCII without a space, because that's data such as base64.
 * Searching for quotes is fast, because Node does it in native code. Returns null as soon as we know that the rest is
 * too long.
 */
function omitData(body: Buffer): Buffer | null {
  const kept: Buffer[] = [];
  let keptBytes = 0;
  let from = 0;
  for (let at = 0; at < body.length; ) {
    if (keptBytes + at - from > maxRequestLength) return null;
    const found = body.indexOf(quote, at);
    const end = found === -1 ? body.length : found;
    if (end - at > minDataBytes && /^[!-~]*$/.test(body.toString('latin1', at, at + minDataBytes))) {
      kept.push(body.subarray(from, at));
      keptBytes += at - from;
      from = end;
    }
    at = end + 1;
  }
  kept.push(body.subarray(from));
  return Buffer.concat(kept);
}

const escapes: Readonly<Record<string, string>> = { n: ' ', r: ' ', t: ' ', b: ' ', f: ' ' };

function unescapeJson(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replaceAll(/\\(?:u([\da-fA-F]{4})|(.))/gs, (_, code?: string, character = '') =>
    code === undefined ? (escapes[character] ?? character) : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

function collapseSpace(text: string): string {
  return text.replaceAll(/ \s+|[^\S ]\s*/g, ' ').trim();
}
