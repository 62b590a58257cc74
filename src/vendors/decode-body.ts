/**
 * Some vendors compress their responses although we ask for `identity`, so we have to decode them. Limits and
 * backpressure apply to the decoded bytes, so a small response that expands to gigabytes can't fill up the memory.
 */
import { constants, createBrotliDecompress, createUnzip, createZstdDecompress } from 'node:zlib';
import { VendorError } from '../core/errors.ts';
import { type BodySource, createResponseBody, type IncomingBody } from './response-body.ts';

// Flags that let the decoders return everything up to the point where a body was interrupted, instead of failing.
const decoders = {
  gzip: () => createUnzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  deflate: () => createUnzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush }),
} as const;

export type ContentEncoding = keyof typeof decoders;

/** Parses a `content-encoding` header. Returns null if the body isn't encoded, or if we don't support the encoding. */
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
