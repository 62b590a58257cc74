/**
 * Splits a `multipart/form-data` body (RFC 7578) into pieces while it arrives. Together, the pieces contain all bytes
 * of the body, unchanged.
 *
 * We only accept bodies that every parser reads in the same way, and throw `bad_json` for anything ambiguous.
 * Otherwise, the gateway and the vendor could see different requests. We don't use a library, because the existing ones
 * return decoded parts. See docs/decisions/2026-11-22-multipart.md.
 */
import { isUtf8 } from 'node:buffer';
import { gatewayError } from '../../core/errors.ts';

/** A piece of a multipart body. The bytes of a field are its `head`, i.e. boundary and headers, followed by `value`. */
export type Piece =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'field'; readonly name: string; readonly head: Buffer; readonly value: Buffer };

const maxHeadBytes = 16 * 1024;
const maxFieldBytes = 1024 * 1024;
/** Hundreds of thousands of parts would hold up other calls. No route has more than a few dozen fields. */
const maxParts = 1_000;
const carriageReturn = 0x0d;

export interface PartTexts {
  /** Names of the parts that can be files. The contents of files aren't checked. */
  readonly fileNames: ReadonlySet<string>;
  /**
   * Texts that content rules have to check: the names and other header texts of all parts, and the contents of every
   * part that isn't a file.
   */
  readonly texts: string[];
}

/**
 * Creates a scanner. It returns the parts that are named in `fieldNames` as fields, and all other parts as bytes. The
 * named parts can't be files and can't be repeated.
 *
 * Pass `collected` if content rules have to check all text. The scanner then returns every part as a field, unless it's
 * a file and its name is in `collected.fileNames`. Parts that are named in `refusedNames` (in lower case) throw
 * `bad_json`.
 */
export function createPartScanner(
  boundary: string,
  fieldNames: ReadonlySet<string>,
  collected: PartTexts | null = null,
  refusedNames: ReadonlySet<string> = new Set(),
) {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  const marker = delimiter.subarray(2);
  /**
   * Lenient parsers also accept these delimiters, and a delimiter at the very start of a part. They would find parts
   * that this scanner doesn't see, so we reject such bodies.
   */
  const lenient = [Buffer.concat([Buffer.from('\r'), marker]), delimiter.subarray(1)] as const;
  const seen = new Set<string>();
  let images = 0;
  let parts = 0;
  let state: 'head' | 'content' | 'end' = 'head';
  /** The delimiter before the next part. It starts with a line break, except for the first one. */
  let opening: Buffer = marker;
  let isContentStart = false;
  /** The field whose value is being collected. Null if the current part is forwarded without collecting it. */
  let field: { readonly name: string; readonly head: Buffer } | null = null;
  /** The part of the field's value that has already arrived, followed by free space. */
  let arrived = Buffer.alloc(0);
  let arrivedBytes = 0;
  let pending: Buffer = Buffer.alloc(0);

  const take = (length: number): Buffer => {
    const taken = pending.subarray(0, length);
    pending = pending.subarray(length);
    return taken;
  };
  const takeBytes = (length: number): Piece[] => (length === 0 ? [] : [{ kind: 'bytes', bytes: take(length) }]);

  const appendToValue = (bytes: Buffer): void => {
    const needed = arrivedBytes + bytes.length;
    if (needed > arrived.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, 2 * arrived.length));
      arrived.copy(grown, 0, 0, arrivedBytes);
      arrived = grown;
    }
    bytes.copy(arrived, arrivedBytes);
    arrivedBytes = needed;
  };
  const takeValue = (): Buffer => {
    const taken = arrived.subarray(0, arrivedBytes);
    arrived = Buffer.alloc(0);
    arrivedBytes = 0;
    return taken;
  };

  const readHead = (): Piece[] | null => {
    const opened = opening.length;
    if (!pending.subarray(0, opened).equals(opening.subarray(0, pending.length))) throw malformed('it does not start with the boundary');
    if (pending.length < opened + 2) return null;
    const lineEnd = pending.toString('latin1', opened, opened + 2);
    if (lineEnd === '--') {
      state = 'end';
      return takeBytes(opened + 2);
    }
    if (lineEnd !== '\r\n') throw malformed('a boundary is not followed by a line break (CRLF)');
    const headEnd = pending.indexOf('\r\n\r\n', opened);
    if ((headEnd === -1 ? pending.length : headEnd) > maxHeadBytes) throw malformed('the headers of a part are too long');
    if (headEnd === -1) return null;
    const { name, isFile, texts } = parseHead(pending.toString('utf8', opened + 2, headEnd));
    state = 'content';
    parts += 1;
    if (parts > maxParts) throw malformed(`it has more than ${maxParts} parts`);
    if (refusedNames.has(name.toLowerCase()))
      throw gatewayError('bad_json', { message: `${name} is not supported; send the recording itself as file` });
    if (/^(?:image|mask)/.test(name)) images += 1;
    const isField = fieldNames.has(name);
    if (isField && isFile) throw malformed(`${name} must not be a file`);
    // Vendors only read one recording. If there were two, we wouldn't know which one they bill.
    if (isField || name === 'file') {
      if (seen.has(name)) throw malformed(`${name} is given more than once`);
      seen.add(name);
    }
    isContentStart = true;
    opening = delimiter;
    const isKnown = isField || collected?.fileNames.has(name);
    collected?.texts.push(...(isKnown ? texts : [name, ...texts]).flatMap(readingsOfHeader));
    if (!isField && (!collected || (isFile && collected.fileNames.has(name)))) return takeBytes(headEnd + 4);
    field = { name, head: take(headEnd + 4) };
    return [];
  };

  const misplaced = (): Error => malformed('a boundary is not preceded by a line break (CRLF)');

  /** Returns the position of the next delimiter, or -1 if there is none. Throws if a lenient delimiter comes first. */
  const findDelimiter = (): number => {
    const [afterReturn, afterNewline] = lenient;
    const newline = pending.indexOf(afterNewline);
    const end = newline > 0 && pending[newline - 1] === carriageReturn ? newline - 1 : -1;
    if (newline !== -1 && end === -1) throw misplaced();
    if ((end === -1 ? pending : pending.subarray(0, end)).includes(afterReturn)) throw misplaced();
    return end;
  };

  const readContent = (): Piece[] | null => {
    if (isContentStart && pending.length < marker.length && marker.subarray(0, pending.length).equals(pending)) return null;
    if (isContentStart && pending.subarray(0, marker.length).equals(marker)) throw misplaced();
    isContentStart = false;
    const end = findDelimiter();
    // Only keep what could be the beginning of a delimiter, so that we don't search the same bytes again with every
    // chunk.
    const ready = end === -1 ? pending.length - Math.max(...[delimiter, ...lenient].map((start) => countStart(pending, start))) : end;
    if (end !== -1) state = 'head';
    if (!field) return end === -1 && ready === 0 ? null : takeBytes(ready);
    const { name, head } = field;
    if (arrivedBytes + ready > maxFieldBytes) throw malformed(`${name} is too long`);
    appendToValue(take(ready));
    if (end === -1) return null;
    field = null;
    const value = takeValue();
    const text = collected ? decodeText(name, value) : '';
    // Content rules don't need to check the model name, because the gateway replaces it before it forwards the form.
    if (name !== 'model') collected?.texts.push(text);
    return [{ kind: 'field', name, head, value }];
  };

  const readEnd = (): Piece[] | null => {
    if (pending.length === 0) return null;
    if (pending.toString('latin1').trim() !== '') throw malformed('there is data after the closing boundary');
    return takeBytes(pending.length);
  };

  const readers = { head: readHead, content: readContent, end: readEnd };
  return {
    /** Takes the next chunk of the body. Returns the pieces that it completes. */
    push(chunk: Buffer): Piece[] {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      const pieces: Piece[] = [];
      for (let read = readers[state](); read !== null; read = readers[state]()) pieces.push(...read);
      return pieces;
    },
    /** Throws if the body ended before its last boundary. */
    end(): void {
      if (state !== 'end') throw malformed('it ends before the closing boundary');
    },
    countImages: () => images,
  };
}

/** Returns how many bytes at the end of `bytes` could be the beginning of `text`. */
function countStart(bytes: Buffer, text: Buffer): number {
  const [first = 0] = text;
  let start = bytes.indexOf(first, Math.max(0, bytes.length - text.length + 1));
  while (start !== -1) {
    const length = bytes.length - start;
    if (bytes.subarray(start).equals(text.subarray(0, length))) return length;
    start = bytes.indexOf(first, start + 1);
  }
  return 0;
}

/**
 * Parses the headers of a part. `texts` are the values that content rules have to check, i.e. all parameters except the
 * name, and every header for which `isOrdinary` returns false.
 */
function parseHead(head: string): { name: string; isFile: boolean; texts: string[] } {
  const headers = head.split('\r\n').map((line) => /^([A-Za-z0-9-]+):[ \t]*(.*)$/.exec(line));
  const valuesOf = (name: string): string[] => headers.flatMap((header) => (header?.[1]?.toLowerCase() === name ? (header[2] ?? '') : []));
  if (headers.includes(null)) throw malformed('a part has a malformed header');
  // Reject encodings such as base64. Some vendors decode them and others don't, so they would see different content in
  // the same bytes.
  if (valuesOf('content-transfer-encoding').some((encoding) => !/^(?:7bit|8bit|binary)$/i.test(encoding.trim())))
    throw malformed('content-transfer-encoding is not supported');
  // Parsers that are made for e-mail read nested parts, and some parsers honor the charset of a text part. They could
  // see content that we don't, so reject both.
  if (valuesOf('content-type').some((type) => /^\s*(?:multipart|message)\//i.test(type))) throw malformed('nested parts are not supported');
  if (valuesOf('content-type').some((type) => /;\s*charset(?!\s*=\s*"?(?:utf-8|us-ascii)"?\s*(?:;|$))/i.test(type)))
    throw malformed('the charset of a part must be utf-8');
  const [disposition = '', ...others] = valuesOf('content-disposition');
  const parameters = others.length === 0 ? parseParameters(disposition) : null;
  const name = parameters?.get('name');
  if (!parameters || name === undefined) throw malformed('the name of a part is missing or ambiguous');
  const unusual = headers.flatMap((header) => (header && !isOrdinary(header[1] ?? '', header[2] ?? '') ? [header[0]] : []));
  const texts = [...[...parameters].flatMap(([key, value]) => (key === 'name' ? [] : [value])), ...unusual];
  return { name, isFile: parameters.has('filename') || parameters.has('filename*'), texts };
}

/**
 * Returns true if content rules don't have to check the text of this header, e.g. because it's a content type without
 * any parameters except a charset. `parseHead` takes care of the parameters of `content-disposition`.
 */
function isOrdinary(name: string, value: string): boolean {
  if (/^content-type$/i.test(name)) return /^[a-z]+\/[\w.+-]{1,64}(?:;\s*charset="?[\w-]+"?)?\s*$/i.test(value);
  return /^content-(?:disposition|transfer-encoding|length)$/i.test(name);
}

/** Parses the parameters in `form-data; name="..."`. Returns null if they are invalid or repeated. */
function parseParameters(disposition: string): ReadonlyMap<string, string> | null {
  const [type = ''] = /^form-data(?=[\s;]|$)/i.exec(disposition) ?? [];
  const parameter = /\s*;\s*([A-Za-z0-9*_-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))\s*/y;
  const parameters = new Map<string, string>();
  parameter.lastIndex = type.length;
  while (parameter.lastIndex < disposition.length) {
    const match = parameter.exec(disposition);
    const key = match?.[1]?.toLowerCase() ?? '';
    const value = match?.[2] ?? match?.[3] ?? '';
    // Reject whatever could make the vendor read a different name, such as escapes or a name that's split into several
    // parameters (`name*0`, RFC 2231).
    const isAmbiguous = /^(?:name\*|filename\*\d)/.test(key) || (key === 'name' && value.includes('\\')) || parameters.has(key);
    if (type === '' || !match || isAmbiguous) return null;
    parameters.set(key, value);
  }
  return parameters;
}

/**
 * Different parsers decode a header in different ways. Returns its text unchanged, without backslash escapes, and
 * percent-decoded.
 */
function readingsOfHeader(text: string): string[] {
  // E-mail parsers decode encoded words (RFC 2047). Some parsers end a name at a control character, and parsers
  // disagree about invalid UTF-8.
  if (text.includes('=?') || /[^\P{Cc}\t]|\ufffd/u.test(text))
    throw malformed('a header of a part contains encoded words, control characters or invalid UTF-8');
  const decoded = text.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'));
  return [...new Set([text, text.replace(/\\(.)/g, '$1'), decoded])];
}

function decodeText(name: string, value: Buffer): string {
  if (!isUtf8(value)) throw malformed(`${name} is not valid UTF-8`);
  if (name === '_charset_' && !/^utf-8$/i.test(value.toString('latin1'))) throw malformed('_charset_ must be utf-8');
  return value.toString('utf8');
}

function malformed(message: string): Error {
  return gatewayError('bad_json', { message: `the body is not valid multipart/form-data: ${message}` });
}
