/** Compresses pages. They consist mostly of repeated markup, so this reduces them to a fifth of their size. */
import { randomBytes, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Smaller bodies fit into one packet anyway, so compressing them gains nothing. */
const minBytes = 1_000;
const maxPadding = 100;
const headerBytes = 10;
/** The flag in the gzip header (FNAME) that announces a file name. */
const hasName = 0x08;

const gzipAsync = promisify(gzip);

/**
 * Compresses a page in a zlib thread, so that calls don't have to wait. Returns null if the text is short. A random
 * file name in the gzip header hides the exact size. Otherwise, somebody who can make a browser request pages with
 * texts of their choice could guess the rest of the page from the sizes, one character after the other (BREACH). Brotli
 * has no such header, so we don't use it.
 */
export async function compressHtml(text: Buffer): Promise<Buffer | null> {
  if (text.length < minBytes) return null;
  const compressed = await gzipAsync(text);
  const header = Buffer.from(compressed.subarray(0, headerBytes));
  header.writeUInt8(header.readUInt8(3) | hasName, 3);
  const name = randomBytes(maxPadding).toString('hex').slice(0, randomInt(1, maxPadding));
  return Buffer.concat([header, Buffer.from(`${name}\0`), compressed.subarray(headerBytes)]);
}
