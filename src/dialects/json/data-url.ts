/** Data URLs (RFC 2397): recognised, decoded, and folded away in running text. Without regular expressions, since bodies reach 32 MiB. */
import { hash } from 'node:crypto';

/** What is kept of binary content. */
export interface Digest {
  readonly bytes: number;
  readonly sha256: string;
}

export function digestBytes(bytes: Buffer): Digest {
  return { bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') };
}

/** Media type and content of a data URL; null when `text` is none. A missing media type is `text/plain`, as the RFC has it. */
export function parseDataUrl(text: string): { mediaType: string; bytes: Buffer } | null {
  if (text.slice(0, scheme.length).toLowerCase() !== scheme) return null;
  const comma = text.indexOf(',');
  if (comma < 0 || comma > maxHeadLength) return null;
  const [mediaType = '', ...parameters] = text.slice(scheme.length, comma).split(';');
  const data = text.slice(comma + 1);
  const isBase64 = parameters.some((parameter) => parameter.trim().toLowerCase() === 'base64');
  return { mediaType: mediaType === '' ? 'text/plain' : mediaType, bytes: isBase64 ? Buffer.from(data, 'base64') : unescapePercent(data) };
}

/**
 * `text` with each base64 data URL in it replaced by `[media type, size, SHA-256]`, always the same for the same URL. Short ones
 * stay: a text of nothing but empty URLs would become eight times as long, and cost a hash for each 13 characters.
 */
export function foldDataUrls(text: string): string {
  let mark = text.indexOf(base64Mark);
  if (mark < 0) return text;
  const pieces: string[] = [];
  let from = 0;
  while (mark >= 0) {
    // Looks back no further than a head is long, else a text of nothing but marks takes time with the square of its length.
    const lookFrom = Math.max(from, mark - maxHeadLength);
    const start = lookFrom + text.slice(lookFrom, mark).lastIndexOf(scheme);
    const end = endOfBase64(text, mark + base64Mark.length);
    // A URL's head is short and has no space; anything else only looks like one.
    if (start >= lookFrom && end - start >= minFoldedLength && !/[\s,]/.test(text.slice(start, mark))) {
      const url = parseDataUrl(text.slice(start, end));
      if (url) {
        const { bytes, sha256 } = digestBytes(url.bytes);
        pieces.push(text.slice(from, start), `[${url.mediaType}, ${bytes} bytes, sha256 ${sha256}]`);
        from = end;
      }
    }
    mark = text.indexOf(base64Mark, end);
  }
  return pieces.join('') + text.slice(from);
}

const scheme = 'data:';
const base64Mark = ';base64,';
const maxHeadLength = 256;
const minFoldedLength = 256;

function endOfBase64(text: string, from: number): number {
  let end = from;
  while (end < text.length && isBase64Character(text.charCodeAt(end))) end += 1;
  return end;
}

/** A-Z a-z 0-9 + / = and the URL-safe - and _. */
export function isBase64Character(code: number): boolean {
  return (
    (code >= 0x41 && code <= 0x5a) ||
    (code >= 0x61 && code <= 0x7a) ||
    (code >= 0x2f && code <= 0x39) ||
    code === 0x2b ||
    code === 0x2d ||
    code === 0x3d ||
    code === 0x5f
  );
}

function unescapePercent(data: string): Buffer {
  try {
    return Buffer.from(decodeURIComponent(data), 'utf8');
  } catch {
    return Buffer.from(data, 'utf8'); // Not valid escapes: its own characters are all there is to describe.
  }
}
