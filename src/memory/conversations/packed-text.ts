/**
 * Compresses long texts for the database. Up to 8 kB we use deflate, which makes them 5 to 8 % smaller than zstd would,
 * and takes no longer if the caches are cold. For longer texts, zstd is several times faster.
 */
import { constants, deflateSync, inflateSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** A text that may be compressed. `content` has hexadecimal digits, so that we can pass it as a query parameter. */
export interface PackedText {
  readonly content: string;
  readonly isCompressed: boolean;
}

/** Compressing a shorter text saves next to nothing. */
const minBytes = 256;
/**
 * Texts that are longer than this many bytes are compressed with zstd instead of deflate. This is also the size of the
 * deflate window below.
 */
const maxDeflatedBytes = 8_192;
/**
 * A `memLevel` of 7 would make texts less than 1 % smaller, but zlib would take 20 to 60 % longer, because it has to
 * clear larger tables (measured).
 */
const deflateOptions = { level: 4, windowBits: 13, memLevel: 5, chunkSize: 4_096 };
/**
 * With level 3, packed extras of 64 kB become 4 to 7 % smaller than with level 1, but take 1.5 times as long. That's
 * still a third of what deflate takes for the same extras one by one (measured).
 */
const zstdOptions = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };

export function packText(text: string): PackedText {
  const bytes = Buffer.from(text);
  if (bytes.length < minBytes) return { content: bytes.toString('hex'), isCompressed: false };
  const compressed = bytes.length <= maxDeflatedBytes ? deflateSync(bytes, deflateOptions) : zstdCompressSync(bytes, zstdOptions);
  const isCompressed = compressed.length < bytes.length;
  return { content: (isCompressed ? compressed : bytes).toString('hex'), isCompressed };
}

/**
 * The first byte of every zstd frame. Deflated texts never begin with it, because their first byte describes the window
 * size and is always 0x58.
 */
const zstdMark = 0x28;

export function unpackText({ content, isCompressed }: { readonly content: Uint8Array; readonly isCompressed: boolean }): string {
  if (!isCompressed) return Buffer.from(content).toString();
  return (content[0] === zstdMark ? zstdDecompressSync(content) : inflateSync(content)).toString();
}
