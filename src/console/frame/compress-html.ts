/** Compresses pages, which are mostly markup that repeats and shrink to a fifth. */
import { randomBytes, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Compressing smaller bodies gains nothing, because they fit into one packet anyway. */
const minBytes = 1_000;
const maxPadding = 100;
const headerBytes = 10;
/** FNAME, a flag in the gzip header. If it's set, a file name follows the header. */
const hasName = 0x08;

const gzipAsync = promisify(gzip);

/**
 * Returns the compressed text, or null if the request doesn't accept gzip or the text is short. zlib compresses it in a
 * thread, so calls don't wait.
 *
 * A file name of random length in gzip's header hides the exact size. From that size, somebody who can make a browser
 * request pages with texts of their choice could guess what else is in the page, one character after the other
 * (BREACH). That's why we don't use Brotli, which has no such header.
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
