/** Compresses pages, which are mostly markup that repeats and shrink to a fifth. */
import { randomBytes, randomInt } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** Smaller bodies fit into one packet anyway. */
const minBytes = 1_000;
/** At this quality, brotli takes about as long as gzip and makes pages a tenth smaller. */
const brotliQuality = 4;
const maxPadding = 64;

const brotliAsync = promisify(brotliCompress);
const gzipAsync = promisify(gzip);

/**
 * Returns the body in the best encoding that the request accepts. zlib compresses it in a thread, so calls don't wait.
 * A comment of random length hides the exact size. From that size, somebody who can make a browser request pages with
 * texts of their choice could guess what else is in the page, one character after the other (BREACH).
 */
export async function compressHtml(
  text: string,
  acceptEncoding: string | undefined,
): Promise<{ readonly body: Buffer; readonly encoding: 'br' | 'gzip' | null }> {
  const plain = Buffer.from(text);
  const encoding = plain.length < minBytes ? null : chooseEncoding(acceptEncoding ?? '');
  if (encoding === null) return { body: plain, encoding };
  const padded = Buffer.from(`${text}<!-- ${randomBytes(randomInt(maxPadding)).toString('base64url')} -->`);
  const body =
    encoding === 'br'
      ? await brotliAsync(padded, { params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality } })
      : await gzipAsync(padded);
  return { body, encoding };
}

function chooseEncoding(accepted: string): 'br' | 'gzip' | null {
  const isAccepted = (name: string) =>
    accepted
      .toLowerCase()
      .split(',')
      .some((entry) => {
        const [coding = '', ...parameters] = entry.split(';').map((part) => part.trim());
        return coding === name && !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
      });
  return (['br', 'gzip'] as const).find(isAccepted) ?? null;
}
