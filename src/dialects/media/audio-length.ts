/**
 * Estimates how long an uploaded recording is, from its bytes as they pass through. We need this because vendors bill
 * transcriptions by the second, but don't always report the seconds (docs/architecture/media.md#charges).
 */
import type { UploadBody } from './uploads.ts';

export interface AudioMeter {
  /** Takes the next bytes of the multipart body. */
  readonly push: (chunk: Buffer) => void;
  /** Returns true once `maxSeconds` won't change any more. */
  readonly isIdentified: () => boolean;
  /**
   * Returns an upper bound of the length. Null if the format doesn't have one, e.g. because it can store any amount of
   * silence in a few bytes.
   */
  readonly maxSeconds: () => number | null;
  /**
   * Estimates the length of the first `bytes` of the body. If the file doesn't state its length, we assume a usual bit
   * rate.
   */
  readonly estimateSeconds: (bytes: number) => number;
}

/** Speech is usually encoded at 64 kbit/s. */
export const usualBytesPerSecond = 8_000;
/** Stereo at 48 kHz and 16 bits. A file whose length implies a higher rate is probably lying. */
const highBytesPerSecond = 192_000;
/** No frame of an MP3 has a lower bit rate than 8 kbit/s. */
const minMp3BytesPerSecond = 1_000;
/** We only look for the beginning of the file in the first 16 KiB of the body. */
const maxHeadBytes = 16 * 1024;
/** We keep this many bytes of each chunk, because a marker can continue in the next one. No marker is longer. */
const longestMarker = 64;

export function createAudioMeter({ contentType, lengthBytes }: UploadBody): AudioMeter {
  const boundary = /boundary="([^"]*)"/.exec(contentType)?.[1] ?? '';
  const start = Buffer.alloc(Math.min(maxHeadBytes, lengthBytes));
  let startBytes = 0;
  let carried = Buffer.alloc(0);
  let lengths: Lengths = { stated: 0, position: 0 };

  const head = () => start.subarray(0, startBytes);
  const rate = () => readByteRate(findFile(head(), boundary));
  return {
    push(chunk) {
      startBytes += chunk.copy(start, startBytes);
      const bytes = Buffer.concat([carried, chunk]);
      lengths = findLengths(bytes, head(), lengths);
      carried = bytes.subarray(-longestMarker);
    },
    isIdentified: () => startBytes === start.length || hasStart(findFile(head(), boundary)),
    maxSeconds() {
      const { min = null } = rate() ?? {};
      return min === null ? null : lengthBytes / min;
    },
    estimateSeconds(bytes) {
      const known = rate();
      if (known) return bytes / known.usual;
      const seconds = Math.max(lengths.position, (lengths.stated * bytes) / lengthBytes);
      return seconds > 0 ? Math.max(seconds, bytes / highBytesPerSecond) : bytes / usualBytesPerSecond;
    },
  };
}

/**
 * Returns the beginning of the part `file`. Multipart bodies can't contain a second one, because the scanner rejects
 * them. Returns null if the part hasn't arrived or if its header has an unusual form.
 */
function findFile(head: Buffer, boundary: string): Buffer | null {
  const delimiter = `--${boundary}\r\n`;
  for (let start = head.indexOf(delimiter); start !== -1; start = head.indexOf(`\r\n${delimiter}`, start + 1)) {
    const end = head.indexOf('\r\n\r\n', start);
    if (end === -1) return null;
    if (/\r\ncontent-disposition: form-data; name="file"(?:;|\r|$)/i.test(head.toString('latin1', start, end)))
      return head.subarray(end + 4);
  }
  return null;
}

function hasStart(file: Buffer | null): boolean {
  return file !== null && file.length >= skipTag(file) + longestMarker;
}

interface ByteRate {
  /** A lower bound of the bytes per second. Null if there is none. */
  readonly min: number | null;
  readonly usual: number;
}

/** Reads the byte rate of a WAV or MP3 file. Returns null for other formats. */
function readByteRate(file: Buffer | null): ByteRate | null {
  return file && (readWavRate(file) ?? readMp3Rate(file.subarray(skipTag(file))));
}

function readWavRate(file: Buffer): ByteRate | null {
  if (file.length < 12 || file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE') return null;
  let at = 12;
  while (at + 8 <= file.length && file.toString('latin1', at, at + 4) !== 'fmt ') {
    const size = file.readUInt32LE(at + 4);
    at += 8 + size + (size % 2);
  }
  if (at + 24 > file.length) return null;
  const size = file.readUInt32LE(at + 4);
  const tag = file.readUInt16LE(at + 8);
  // WAVE_FORMAT_EXTENSIBLE has the actual format at the beginning of a GUID.
  const format = tag === 0xfffe && size >= 40 && at + 34 <= file.length ? file.readUInt16LE(at + 32) : tag;
  const isPcm = size >= 16 && (format === 1 || format === 3);
  if (!isPcm) return { min: null, usual: Math.min(usualBytesPerSecond, Math.max(1, file.readUInt32LE(at + 16))) };
  // The header also has fields for the byte rate and the size of a frame, but decoders ignore them.
  const rate = (file.readUInt16LE(at + 10) * file.readUInt32LE(at + 12) * file.readUInt16LE(at + 22)) / 8;
  return rate > 0 ? { min: rate, usual: rate } : null;
}

const kilobitsOfMpeg1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const kilobitsOfMpeg2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

function readMp3Rate(file: Buffer): ByteRate | null {
  if (file.length < 4) return null;
  const header = file.readUInt32BE(0);
  const version = (header >>> 19) & 3;
  const isLayer3 = header >>> 21 === 0x7ff && version !== 1 && ((header >>> 17) & 3) === 1 && ((header >>> 10) & 3) !== 3;
  const kilobits = (version === 3 ? kilobitsOfMpeg1 : kilobitsOfMpeg2)[(header >>> 12) & 15] ?? 0;
  return isLayer3 && kilobits > 0 ? { min: minMp3BytesPerSecond, usual: kilobits * 125 } : null;
}

/** Returns the size of the ID3 tag at the beginning of the file. */
function skipTag(file: Buffer): number {
  if (file.length < 10 || file.toString('latin1', 0, 3) !== 'ID3') return 0;
  return 10 + [...file.subarray(6, 10)].reduce((size, byte) => size * 128 + (byte & 127), 0);
}

/** In seconds, or 0 if unknown. `stated` is the length of the whole file, and `position` how much of it has arrived. */
interface Lengths {
  readonly stated: number;
  readonly position: number;
}

/** Adds the lengths that MP4 and FLAC files state in these bytes, and the positions in Ogg and WebM files. */
function findLengths(bytes: Buffer, head: Buffer, { stated, position }: Lengths): Lengths {
  // A chunk can contain thousands of pages, so only look for the rate once.
  let oggRate: number | null = null;
  const readPage = (page: Buffer): number => readOgg(page, () => (oggRate ??= findOggRate(head)));
  return {
    stated: Math.max(stated, findLongest(bytes, 'mvhd', readMovie), findLongest(bytes, 'fLaC', readFlac)),
    position: Math.max(position, findLongest(bytes, 'OggS', readPage), findLongest(bytes, '\x1f\x43\xb6\x75', readCluster)),
  };
}

function findLongest(bytes: Buffer, marker: string, read: (at: Buffer) => number): number {
  const needle = Buffer.from(marker, 'latin1');
  let longest = 0;
  for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1)) {
    const seconds = bytes.length - at < 36 ? 0 : read(bytes.subarray(at));
    if (Number.isFinite(seconds)) longest = Math.max(longest, seconds);
  }
  return longest;
}

function readMovie(box: Buffer): number {
  const version = box.readUInt32BE(4);
  const isUnknown = box.readUInt32BE(version === 0 ? 20 : 28) === 0xffffffff;
  if (isUnknown) return 0;
  if (version === 0) return box.readUInt32BE(20) / box.readUInt32BE(16);
  return version === 0x01000000 ? Number(box.readBigUInt64BE(28)) / box.readUInt32BE(24) : 0;
}

function readFlac(stream: Buffer): number {
  const isStreamInfo = (stream.readUInt32BE(4) & 0x7fffffff) === 34;
  return isStreamInfo ? (((stream[21] ?? 0) % 16) * 2 ** 32 + stream.readUInt32BE(22)) / (stream.readUInt32BE(18) >>> 12) : 0;
}

function readOgg(page: Buffer, rate: () => number): number {
  const position = page.readBigInt64LE(6);
  return page[4] !== 0 || (page[5] ?? 8) > 7 || position <= 0n ? 0 : Number(position) / rate();
}

/** Returns the sample rate of Vorbis. Opus always counts its samples at 48 kHz. */
function findOggRate(head: Buffer): number {
  const vorbis = head.indexOf('\x01vorbis', 0, 'latin1');
  return vorbis !== -1 && vorbis + 16 <= head.length ? head.readUInt32LE(vorbis + 12) : 48_000;
}

/** Reads the time at which a cluster of a WebM file starts. Browsers don't write the length of a recording. */
function readCluster(cluster: Buffer): number {
  // The number of leading zero bits tells us how many bytes the size of the cluster takes up.
  let at = 4 + Math.clz32(cluster[4] ?? 0) - 23;
  // A checksum may come first.
  if (cluster[at] === 0xbf) at += 6;
  const size = (cluster[at + 1] ?? 0) - 128;
  return cluster[at] === 0xe7 && size >= 1 && size <= 6 ? cluster.readUIntBE(at + 2, size) / 1_000 : 0;
}
