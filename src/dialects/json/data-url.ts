/**
 * Parses data URLs (RFC 2397) and replaces them with digests. We don't run regular expressions over the whole text,
 * because bodies can be up to 32 MiB.
 */
import { hash } from 'node:crypto';

/** Returns the size and the hash of binary content. We store these instead of the content itself. */
export function digestBytes(bytes: Buffer): { bytes: number; sha256: string } {
  return { bytes: bytes.length, sha256: hash('sha256', bytes, 'hex') };
}

/**
 * Returns the media type and the content of a data URL. The default type is `text/plain` (RFC 2397). Returns null if
 * `text` isn't a data URL.
 */
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
 * Replaces each base64 data URL in `text` with `[media type, size, SHA-256]`, so the same URL always gives the same
 * result. Short URLs stay unchanged. Otherwise, a text full of empty URLs would grow eightfold, and we'd compute a hash
 * for every 13 characters.
 */
export function foldDataUrls(text: string): string {
  let markAt = text.indexOf(base64Mark);
  if (markAt < 0) return text;
  const parts: string[] = [];
  let from = 0;
  while (markAt >= 0) {
    // A data URL has at most `maxHeadLength` characters before its data, so we don't look further back for `data:`.
    // Otherwise, a text that just repeats `;base64,` would take quadratic time.
    const searchFrom = Math.max(from, markAt - maxHeadLength);
    const start = searchFrom + text.slice(searchFrom, markAt).lastIndexOf(scheme);
    const end = endOfBase64(text, markAt + base64Mark.length);
    // The head of a data URL can't contain white space or commas.
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

/** Matches A-Z, a-z, 0-9, `+`, `/` and `=`, and also `-` and `_` of the URL-safe alphabet. */
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
    return Buffer.from(data, 'utf8'); // not valid percent-encoding, so take it literally
  }
}
