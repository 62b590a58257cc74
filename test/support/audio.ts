/**
 * Writes the smallest audio files that state a certain length. Only WAV and MP3 contain as many samples as they say.
 */

export function wav({ rate, seconds }: { readonly rate: number; readonly seconds: number }): Buffer {
  const data = Buffer.alloc(rate * seconds * 2);
  const header = Buffer.alloc(44);
  header.write('RIFF', 0, 'latin1');
  header.writeUInt32LE(36 + data.length, 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(data.length, 40);
  return Buffer.concat([header, data]);
}

/** MPEG 1, layer 3, 64 kbit/s at 48 kHz. Each frame has 192 bytes and lasts 24 ms. */
export function mp3(seconds: number): Buffer {
  const frame = Buffer.alloc(192);
  frame.writeUInt32BE(0xfffb5400);
  return Buffer.concat(Array.from({ length: Math.ceil(seconds / 0.024) }, () => frame));
}

/** Silence compresses so well that an hour fits into a few kilobytes. */
const silence = Buffer.alloc(2_000);

export function flac(seconds: number, rate = 16_000): Buffer {
  const header = Buffer.alloc(42);
  header.write('fLaC', 0, 'latin1');
  header.writeUInt32BE(0x80000022, 4);
  header.writeUInt32BE(((rate << 12) | (15 << 4)) >>> 0, 18);
  header.writeUInt32BE(Math.round(seconds * rate), 22);
  return Buffer.concat([header, silence]);
}

export function ogg(seconds: number): Buffer {
  const page = (position: number): Buffer => {
    const header = Buffer.alloc(28);
    header.write('OggS', 0, 'latin1');
    header.writeBigInt64LE(BigInt(position), 6);
    return Buffer.concat([header, Buffer.from('OpusHead'), silence]);
  };
  return Buffer.concat([page(0), page(seconds * 48_000), page(-1)]);
}

export function mp4(seconds: number, version: 0 | 1): Buffer {
  const box = Buffer.alloc(120);
  box.writeUInt32BE(box.length, 0);
  box.write('moov', 4, 'latin1');
  box.write('mvhd', 12, 'latin1');
  box[16] = version;
  box.writeUInt32BE(1_000, version === 0 ? 28 : 36);
  if (version === 0) box.writeUInt32BE(seconds * 1_000, 32);
  else box.writeBigUInt64BE(BigInt(seconds) * 1_000n, 40);
  return Buffer.concat([Buffer.from('\0\0\0\x10ftypM4A \0\0\0\0', 'latin1'), silence, box]);
}

/** Like a browser, writes a cluster every 30 seconds and doesn't state the length of the recording. */
export function webm(seconds: number): Buffer {
  const cluster = Buffer.from('1f43b67501ffffffffffffffe78400000000', 'hex');
  cluster.writeUInt32BE(seconds * 1_000, cluster.length - 4);
  return Buffer.concat([Buffer.from('1a45dfa3', 'hex'), silence, cluster, silence]);
}
