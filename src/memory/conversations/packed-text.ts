/** The stored form of long texts. */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** `content` as hexadecimal digits, the form of parameters. */
export interface PackedText {
  readonly content: string;
  readonly isCompressed: boolean;
}

/** Shorter texts gain next to nothing. */
const minBytes = 256;
/** Code and prose of a few kilobytes shrink to 40 to 50 %, in 30 µs. */
const params = { [constants.ZSTD_c_compressionLevel]: 3 };

export function packText(text: string): PackedText {
  const bytes = Buffer.from(text);
  if (bytes.length < minBytes) return { content: bytes.toString('hex'), isCompressed: false };
  const compressed = zstdCompressSync(bytes, { params });
  const isCompressed = compressed.length < bytes.length;
  return { content: (isCompressed ? compressed : bytes).toString('hex'), isCompressed };
}

export function unpackText({ content, isCompressed }: { readonly content: Uint8Array; readonly isCompressed: boolean }): string {
  return Buffer.from(isCompressed ? zstdDecompressSync(content) : content).toString();
}
