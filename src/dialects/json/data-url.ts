/** Recognizes, decodes and folds data URLs (RFC 2397). Without regular expressions over the text, since bodies reach 32 MiB. */
import { hash } from 'node:crypto';

/** What is stored of binary content. */
export interface Digest {
  readonly bytes: number;
  readonly sha256: string;
}

export function digestBytes(bytes: Buffer): Digest {
  return { bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') };
}

/** Media type and content of a data URL; a missing media type means `text/plain` (RFC 2397). Null when `text` is not a data URL. */
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
 * Replaces each base64 data URL in `text` by `[media type, size, SHA-256]`, deterministically. Short URLs stay: a text of empty URLs
 * would grow eightfold and cost one hash per 13 characters.
 */
export function foldDataUrls(text: string): string {
  let markAt = text.indexOf(base64Mark);
  if (markAt < 0) return text;
  const parts: string[] = [];
  let from = 0;
  while (markAt >= 0) {
    // Searches back at most the length of a head: otherwise a text of marks alone takes quadratic time.
    const searchFrom = Math.max(from, markAt - maxHeadLength);
    const start = searchFrom + text.slice(searchFrom, markAt).lastIndexOf(scheme);
    const end = endOfBase64(text, markAt + base64Mark.length);
    // The head of a URL is short and contains neither white space nor a comma.
    if (start >= searchFrom && end - start >= minFoldedLength && !/[\s,]/.test(text.slice(start, markAt))) {
      const url = parseDataUrl(text.slice(start, end));
      if (url) {
        const { bytes, sha256 } = digestBytes(url.bytes);
        parts.push(text.slice(from, start), `[${url.mediaType}, ${bytes} bytes, sha256 ${sha256}]`);
        from = end;
      }
    }
    markAt = text.indexOf(base64Mark, end);
  }
  return parts.join('') + text.slice(from);
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
    return Buffer.from(data, 'utf8'); // Invalid percent-encoding: described by its characters.
  }
}
