/** Tests how long the gateway believes an uploaded recording to be. */
import { describe, expect, it } from '@jest/globals';
import { createAudioMeter } from '../../../src/dialects/media/audio-length.ts';
import { flac, mp3, mp4, ogg, wav, webm } from '../../support/audio.ts';

const field = (name: string, value: string) => Buffer.from(`--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`);
const filePart = (bytes: Buffer, disposition = 'form-data; name="file"; filename="a"') =>
  Buffer.concat([Buffer.from(`--x\r\nContent-Disposition: ${disposition}\r\n\r\n`), bytes, Buffer.from('\r\n')]);
const form = (...parts: Buffer[]) => Buffer.concat([...parts, Buffer.from('--x--\r\n')]);

function measure(body: Buffer, chunkBytes = body.length) {
  const contentType = 'multipart/form-data; boundary="x"';
  const meter = createAudioMeter({ contentType, lengthBytes: body.length, chunks: (async function* () {})() });
  for (let start = 0; start < body.length; start += chunkBytes) meter.push(body.subarray(start, start + chunkBytes));
  return { max: meter.maxSeconds(), estimate: meter.estimateSeconds(body.length), isIdentified: meter.isIdentified() };
}

function insertChunk(file: Buffer): Buffer {
  const chunk = Buffer.from('bext\x05\0\0\0abcde\0', 'latin1');
  return Buffer.concat([file.subarray(0, 12), chunk, file.subarray(12)]);
}

function withFormat(format: number): Buffer {
  const file = wav({ rate: 16_000, seconds: 10 });
  file.writeUInt16LE(format, 20);
  return file;
}

describe('createAudioMeter', () => {
  it.each([
    ['WAV', wav({ rate: 16_000, seconds: 10 }), 10],
    ['WAV with a low sample rate', wav({ rate: 10, seconds: 3_600 }), 3_600],
    ['WAV with another chunk before its format', insertChunk(wav({ rate: 16_000, seconds: 10 })), 10],
    ['WAV with floating-point samples', withFormat(3), 10],
    ['MP3', mp3(20), 20],
    ['MP3 with an ID3 tag', Buffer.concat([Buffer.from('ID3\x04\0\0\0\0\x02\x01', 'latin1'), Buffer.alloc(257), mp3(20)]), 20],
    ['FLAC', flac(3_600), 3_600],
    ['Ogg', ogg(3_600), 3_600],
    ['MP4', mp4(3_600, 0), 3_600],
    ['MP4 with long numbers', mp4(3_600, 1), 3_600],
    ['WebM', webm(3_600), 3_600],
  ])('reads the length of a file in the format %s', (_format, file, seconds) => {
    const body = form(field('model', 'own/whisper'), filePart(file), field('prompt', 'a fox'));
    for (const chunkBytes of [body.length, 1_000, 7, 1]) {
      const { estimate, isIdentified } = measure(body, chunkBytes);
      expect(isIdentified).toBe(true);
      expect(estimate).toBeGreaterThanOrEqual(seconds);
      // The form around the file makes it look longer than it is.
      expect(estimate).toBeLessThan(seconds * 1.1 + 40);
    }
  });

  it('calculates the maximum length only for WAV and MP3 files', () => {
    const boundOf = (file: Buffer) => measure(form(filePart(file))).max;
    const [wavBound, mp3Bound] = [wav({ rate: 16_000, seconds: 10 }), mp3(20)].map(boundOf);
    expect([Number(wavBound) >= 10, Number(wavBound) < 11, Number(mp3Bound) >= 20, Number(mp3Bound) < 20 * 9]).toEqual([
      ...[true, true, true, true],
    ]);
    const compressedWav = wav({ rate: 16_000, seconds: 10 });
    compressedWav.writeUInt16LE(0x31, 20);
    const taggedFlac = Buffer.concat([Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1'), flac(10)]);
    for (const file of [flac(10), ogg(10), mp4(10, 0), webm(10), compressedWav, taggedFlac, Buffer.alloc(20_000)])
      expect(boundOf(file)).toBeNull();
  });

  it('ignores decoy files when calculating the maximum length', () => {
    const decoy = wav({ rate: 48_000, seconds: 1 });
    const head = 'Content-Disposition: form-data; name="file"';
    for (const part of [
      filePart(decoy, 'form-data; name="other"; filename="a"'),
      filePart(decoy, 'form-data; name="other"; filename="; name=file"'),
      filePart(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), decoy]), 'form-data; name="other"'),
      filePart(Buffer.concat([Buffer.from(`\r\n--y\r\n${head}\r\n\r\n`), decoy]), 'form-data; name="other"'),
    ])
      expect(measure(form(part, filePart(flac(3_600)))).max).toBeNull();
  });

  it("doesn't mistake the size of a WebM cluster for its timestamp", () => {
    const cluster = Buffer.concat([Buffer.from('1f43b6752fe784e78100', 'hex'), Buffer.alloc(80_000)]);
    expect(measure(form(filePart(cluster))).estimate).toBeLessThan(11);
  });

  it('counts only the part of a recording that has arrived', () => {
    const body = form(filePart(mp4(3_600, 0)));
    const meter = createAudioMeter({
      contentType: 'multipart/form-data; boundary="x"',
      lengthBytes: 10 * body.length,
      chunks: (async function* () {})(),
    });
    meter.push(body);
    expect(meter.estimateSeconds(body.length)).toBeCloseTo(360, 0);
  });

  it('assumes a typical bit rate if the file does not state its length', () => {
    expect(measure(form(filePart(Buffer.alloc(80_000)))).estimate).toBeCloseTo(10, 0);
    // A file that claims to be much shorter than its size allows isn't believed.
    expect(measure(form(filePart(Buffer.concat([flac(0.001), Buffer.alloc(1_920_000)])))).estimate).toBeGreaterThanOrEqual(10);
  });
});
