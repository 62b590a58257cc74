/**
 * Splits a `multipart/form-data` body (RFC 7578) into pieces while it arrives, without changing a byte: joined, the pieces are the body. Pure.
 *
 * It accepts only what every parser reads in the same way, so that the gateway and the vendor cannot read two different requests; anything
 * else throws `bad_json`. It is not a library, because those return decoded parts: docs/decisions/2026-11-22-multipart.md.
 */
import { gatewayError } from '../../core/errors.ts';

/** A piece of the body. The bytes of a field are `head` (its boundary and headers) followed by `value`. */
export type Piece =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'field'; readonly name: string; readonly head: Buffer; readonly value: Buffer };

export interface PartScanner {
  /** Returns the pieces that are complete. */
  push(chunk: Buffer): Piece[];
  /** Throws when the body ends before its last boundary. */
  end(): void;
  /** How many images and masks have begun. */
  countImages(): number;
}

const maxHeadBytes = 16 * 1024;
const maxFieldBytes = 1024 * 1024;
const carriageReturn = 0x0d;

/** Parts named in `fieldNames` become fields: they must not be files, nor repeated. All other parts pass as bytes. */
export function createPartScanner(boundary: string, fieldNames: ReadonlySet<string>): PartScanner {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  const marker = delimiter.subarray(2);
  /** Delimiters of lenient parsers, at whose other line ends or at the start of a part they begin a part that is not read here. */
  const lenient = [Buffer.concat([Buffer.from('\r'), marker]), delimiter.subarray(1)] as const;
  const seen = new Set<string>();
  let images = 0;
  let state: 'head' | 'content' | 'end' = 'head';
  /** The delimiter before the next head; the first one has no line break before it. */
  let opening: Buffer = marker;
  let isContentStart = false;
  /** The field that is being read; null while a part passes as bytes. */
  let field: { readonly name: string; readonly head: Buffer } | null = null;
  let pending: Buffer = Buffer.alloc(0);

  const take = (length: number): Buffer => {
    const taken = pending.subarray(0, length);
    pending = pending.subarray(length);
    return taken;
  };
  const takeBytes = (length: number): Piece[] => (length === 0 ? [] : [{ kind: 'bytes', bytes: take(length) }]);

  /** Reads a delimiter with the headers of the part after it. Null: more data is needed. */
  const readHead = (): Piece[] | null => {
    const opened = opening.length;
    if (!pending.subarray(0, opened).equals(opening.subarray(0, pending.length))) throw malformed('it does not begin with its boundary');
    if (pending.length < opened + 2) return null;
    const lineEnd = pending.toString('latin1', opened, opened + 2);
    if (lineEnd === '--') {
      state = 'end';
      return takeBytes(opened + 2);
    }
    if (lineEnd !== '\r\n') throw malformed('a boundary is not followed by a line end');
    const headEnd = pending.indexOf('\r\n\r\n', opened);
    if ((headEnd === -1 ? pending.length : headEnd) > maxHeadBytes) throw malformed('the headers of a part are too long');
    if (headEnd === -1) return null;
    const { name, isFile } = parseHead(pending.toString('utf8', opened + 2, headEnd));
    state = 'content';
    if (/^(?:image|mask)/.test(name)) images += 1;
    isContentStart = true;
    opening = delimiter;
    if (!fieldNames.has(name)) return takeBytes(headEnd + 4);
    if (isFile) throw malformed(`${name} must not be a file`);
    if (seen.has(name)) throw malformed(`${name} is given more than once`);
    seen.add(name);
    field = { name, head: take(headEnd + 4) };
    return [];
  };

  const misplaced = (): Error => malformed('a boundary does not follow a line break (CRLF)');

  /** Position of the next delimiter; -1 when there is none. Throws for a lenient one before it. */
  const findDelimiter = (): number => {
    const [afterReturn, afterNewline] = lenient;
    const newline = pending.indexOf(afterNewline);
    const end = newline > 0 && pending[newline - 1] === carriageReturn ? newline - 1 : -1;
    if (newline !== -1 && end === -1) throw misplaced();
    if ((end === -1 ? pending : pending.subarray(0, end)).includes(afterReturn)) throw misplaced();
    return end;
  };

  /** Reads content up to the next delimiter. Null: more data is needed. */
  const readContent = (): Piece[] | null => {
    if (isContentStart && pending.length < marker.length && marker.subarray(0, pending.length).equals(pending)) return null;
    if (isContentStart && pending.subarray(0, marker.length).equals(marker)) throw misplaced();
    isContentStart = false;
    const end = findDelimiter();
    if (field) {
      const { name, head } = field;
      if ((end === -1 ? pending.length - delimiter.length : end) > maxFieldBytes) throw malformed(`${name} is too long`);
      if (end === -1) return null;
      field = null;
      state = 'head';
      return [{ kind: 'field', name, head, value: take(end) }];
    }
    if (end !== -1) {
      state = 'head';
      return takeBytes(end);
    }
    const ready = pending.length - Math.max(...[delimiter, ...lenient].map((start) => countStart(pending, start)));
    return ready === 0 ? null : takeBytes(ready);
  };

  /** After the last delimiter only white space may follow. */
  const readEnd = (): Piece[] | null => {
    if (pending.length === 0) return null;
    if (pending.toString('latin1').trim() !== '') throw malformed('data follows its last boundary');
    return takeBytes(pending.length);
  };

  const readers = { head: readHead, content: readContent, end: readEnd };
  return {
    push(chunk) {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
      const pieces: Piece[] = [];
      for (let read = readers[state](); read !== null; read = readers[state]()) pieces.push(...read);
      return pieces;
    },
    end() {
      if (state !== 'end') throw malformed('it ends before its last boundary');
    },
    countImages: () => images,
  };
}

/** Number of bytes at the end of `bytes` with which `text` may begin. */
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

/** Reads the name of a part, and whether it is a file. */
function parseHead(head: string): { readonly name: string; readonly isFile: boolean } {
  const headers = head.split('\r\n').map((line) => /^([A-Za-z0-9-]+):[ \t]*(.*)$/.exec(line));
  const valuesOf = (name: string): string[] => headers.flatMap((header) => (header?.[1]?.toLowerCase() === name ? (header[2] ?? '') : []));
  if (headers.includes(null)) throw malformed('a header of a part cannot be read');
  // Encodings other than these change the meaning of the bytes, and vendors ignore or apply them.
  if (valuesOf('content-transfer-encoding').some((encoding) => !/^(?:7bit|8bit|binary)$/i.test(encoding.trim())))
    throw malformed('content-transfer-encoding is not supported');
  const [disposition = '', ...others] = valuesOf('content-disposition');
  const parameters = others.length === 0 ? parseParameters(disposition) : null;
  const name = parameters?.get('name');
  if (!parameters || name === undefined) throw malformed('a part has no readable name');
  return { name, isFile: parameters.has('filename') || parameters.has('filename*') };
}

/** Parameters of `form-data; name="..."`; null when they cannot be read, or one is repeated. */
function parseParameters(disposition: string): ReadonlyMap<string, string> | null {
  const [type = ''] = /^form-data(?=[\s;]|$)/i.exec(disposition) ?? [];
  const parameter = /\s*;\s*([A-Za-z0-9*_-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))\s*/y;
  const parameters = new Map<string, string>();
  parameter.lastIndex = type.length;
  while (parameter.lastIndex < disposition.length) {
    const match = parameter.exec(disposition);
    const key = match?.[1]?.toLowerCase() ?? '';
    const value = match?.[2] ?? match?.[3] ?? '';
    // An escaped name, or one in pieces (`name*0`, RFC 2231), may be another one to the vendor.
    const isAmbiguous = key.startsWith('name*') || (key === 'name' && value.includes('\\')) || parameters.has(key);
    if (type === '' || !match || isAmbiguous) return null;
    parameters.set(key, value);
  }
  return parameters;
}

function malformed(message: string): Error {
  return gatewayError('bad_json', { message: `the body is not valid multipart/form-data: ${message}` });
}
