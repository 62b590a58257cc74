/** Compresses pages. They consist mostly of repeated markup, so they shrink to a fifth. */
import { randomBytes, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Anything smaller fits into one packet anyway, so compressing it gains nothing. */
const minBytes = 1_000;
const maxPadding = 100;
const headerBytes = 10;
/** A flag in the gzip header (FNAME), which says that a file name follows. */
const hasName = 0x08;

const gzipAsync = promisify(gzip);

/**
 * Compresses a page in a thread of zlib, so that calls don't have to wait. Returns null if the text is short or the
 * browser doesn't accept gzip.
 *
 * If somebody can make a browser request pages that contain texts of their choice, the exact sizes let them guess the
 * rest of the page, one character after the other (BREACH). To hide the exact size, we put a file name of random length
 * into the gzip header. Brotli has no such header, which is why we don't use it.
 */
export async function compressHtml(text: Buffer, acceptEncoding: string | undefined): Promise<Buffer | null> {
  if (text.length < minBytes || !acceptsGzip(acceptEncoding ?? '')) return null;
  const compressed = await gzipAsync(text);
  const header = Buffer.from(compressed.subarray(0, headerBytes));
  header.writeUInt8(header.readUInt8(3) | hasName, 3);
  const name = randomBytes(maxPadding).toString('hex').slice(0, randomInt(1, maxPadding));
  return Buffer.concat([header, Buffer.from(`${name}\0`), compressed.subarray(headerBytes)]);
}

function acceptsGzip(accepted: string): boolean {
  return accepted
    .toLowerCase()
    .split(',')
    .some((entry) => {
      const [coding = '', ...parameters] = entry.split(';').map((part) => part.trim());
      return coding === 'gzip' && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
    });
}
