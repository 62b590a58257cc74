/**
 * Decodes the response of a vendor that compresses it although we ask for `identity`. All limits and the backpressure
 * of a slow reader apply to the decoded bytes. A small response that expands to gigabytes therefore takes no more
 * memory than any other.
 */
import { constants, createBrotliDecompress, createUnzip, createZstdDecompress } from 'node:zlib';
import { VendorError } from '../core/errors.ts';
import { type BodySource, createResponseBody, type IncomingBody } from './response-body.ts';

// With these flags we decode as much of an interrupted body as has arrived. Otherwise the decoder would fail.
const decoders = {
  gzip: () => createUnzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  deflate: () => createUnzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush }),
} as const;

export type ContentEncoding = keyof typeof decoders;

/** Returns the encoding of a response, or null if it isn't encoded or we can't decode it. */
export function parseContentEncoding(header: string | string[] | undefined): ContentEncoding | null {
  if (header === undefined) return null;
  const name = String(header).trim().toLowerCase().replace(/^x-/, '');
  return Object.hasOwn(decoders, name) ? (name as ContentEncoding) : null;
}

export function createDecodedBody(connection: BodySource, encoding: ContentEncoding): IncomingBody {
  const decoder = decoders[encoding]();
  let failure: VendorError | null = null;
  const body = createResponseBody({
    pause: () => decoder.pause(),
    resume: () => decoder.resume(),
    abort(error) {
      decoder.destroy();
      connection.abort(error);
    },
  });
  decoder
    .on('data', body.add)
    .on('drain', () => connection.resume())
    .on('end', () => (failure ? body.fail(failure) : body.end()))
    .on('error', (cause) => body.destroy(new VendorError('broken', `the response is not valid ${encoding}`, { cause })));
  return {
    ...body,
    add(chunk) {
      if (!decoder.destroyed && !decoder.write(chunk)) connection.pause();
    },
    end: () => void decoder.end(),
    fail(error) {
      failure = error;
      if (decoder.destroyed) body.fail(error);
      else decoder.end();
    },
  };
}
