import { describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { createPartScanner, type Piece } from '../../../src/dialects/media/multipart.ts';

const boundary = 'b0undary';
const names = new Set(['model', 'prompt']);

/** The size of the chunks in which we scan a body. */
function scan(body: Buffer, chunkBytes = body.length): Piece[] {
  const scanner = createPartScanner(boundary, names);
  const pieces: Piece[] = [];
  for (let start = 0; start < body.length; start += chunkBytes) pieces.push(...scanner.push(body.subarray(start, start + chunkBytes)));
  scanner.end();
  return pieces;
}

const part = (disposition: string, value: string | Buffer, more = ''): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: ${disposition}\r\n${more}\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
const bodyOf = (...parts: readonly Buffer[]): Buffer => Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);
const bytesOf = (pieces: readonly Piece[]): Buffer =>
  Buffer.concat(pieces.flatMap((piece) => (piece.kind === 'bytes' ? [piece.bytes] : [piece.head, piece.value])));
const fieldsOf = (pieces: readonly Piece[]): string[][] =>
  pieces.flatMap((piece) => (piece.kind === 'field' ? [[piece.name, piece.value.toString()]] : []));

/** Returns content in which only a lenient parser would find another part. */
const hidden = (before: string): string => `${before}--${boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nother`;
const model = part('form-data; name="model"', 'openai/whisper-1');

describe('a multipart body', () => {
  it('forwards a multipart body byte for byte', () => {
    const content = fc.oneof(
      fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
      // Content that looks like a delimiter.
      fc
        .array(fc.constantFrom('\r', '\n', '\r\n', '--', '-', 'b0undary', `\r\n--b0undar`, 'x'), { maxLength: 12 })
        .map((parts) => Buffer.from(parts.join(''))),
    );
    fc.assert(
      fc.property(
        content,
        fc.string({ maxLength: 30, unit: 'grapheme' }),
        fc.integer({ min: 1, max: 60 }),
        fc.boolean(),
        (file, prompt, size, modelFirst) => {
          fc.pre(!new RegExp(`[\\r\\n]--${boundary}`).test(`\n${file.toString('latin1')}`) && !prompt.includes(boundary));
          const upload = part('form-data; name="file"; filename="a;b.mp3"', file, 'Content-Type: audio/mpeg\r\n');
          const parts = modelFirst ? [model, upload] : [upload, model];
          const body = bodyOf(...parts, part('form-data; name="prompt"', prompt));
          const pieces = scan(body, size);
          expect(bytesOf(pieces).equals(body)).toBe(true);
          expect(fieldsOf(pieces)).toEqual([
            ['model', 'openai/whisper-1'],
            ['prompt', prompt],
          ]);
        },
      ),
    );
  });

  it('copies the value of a field only once, even if it arrives in small chunks', () => {
    const body = bodyOf(part('form-data; name="prompt"', 'x'.repeat(100_000)));
    const concat = jest.spyOn(Buffer, 'concat');
    scan(body, 100);
    const copiedBytes = concat.mock.calls.flatMap(([chunks]) => chunks).reduce((sum, { length }) => sum + length, 0);
    concat.mockRestore();
    expect(copiedBytes).toBeLessThan(2 * body.length);
  });

  it('reads the same multipart fields as an independent parser', async () => {
    const form = new FormData();
    form.set('file', new File(['\r\n--other\r\n'], 'ünï"cödé\r\n.wav', { type: 'audio/wav' }));
    form.set('model', 'a/b');
    form.set('prompt', 'grüße\r\n"x"');
    form.append('include[]', 'logprobs');
    const request = new Request('http://x.test', { method: 'POST', body: form });
    const body = Buffer.from(await request.arrayBuffer());
    const scanner = createPartScanner(/boundary=(\S+)/.exec(request.headers.get('content-type') ?? '')?.[1] ?? '', names);
    const pieces = scanner.push(body);
    scanner.end();
    expect(bytesOf(pieces).equals(body)).toBe(true);
    expect(fieldsOf(pieces)).toEqual([
      ['model', 'a/b'],
      ['prompt', 'grüße\r\n"x"'],
    ]);
  });

  it.each([
    ['data before the first boundary', Buffer.concat([Buffer.from('x\r\n'), bodyOf(model)]), 'start with'],
    ['no last boundary', model, 'ends before'],
    ['data after the last boundary', Buffer.concat([bodyOf(model), model]), 'there is data after the closing boundary'],
    ['a repeated field', bodyOf(model, model), 'model is given more than once'],
    ['a field that is a file', bodyOf(part('form-data; name="prompt"; filename="p"', 'x')), 'prompt must not be a file'],
    [
      'a field that is a file with an encoded name',
      bodyOf(part("form-data; name=prompt; filename*=UTF-8''p", 'x')),
      'prompt must not be a file',
    ],
    ['a part without a name', bodyOf(part('form-data', 'x')), 'the name of a part is missing or ambiguous'],
    ['a name given twice', bodyOf(part('form-data; name="x"; name="model"', 'x')), 'the name of a part is missing or ambiguous'],
    ['an escaped name', bodyOf(part('form-data; name="mo\\del"', 'x')), 'the name of a part is missing or ambiguous'],
    ['an encoded name', bodyOf(part("form-data; name*=UTF-8''model", 'x')), 'the name of a part is missing or ambiguous'],
    ['a name in pieces', bodyOf(part('form-data; name="x"; name*0="mo"; name*1="del"', 'x')), 'the name of a part is missing or ambiguous'],
    ['another disposition', bodyOf(part('attachment; name="model"', 'x')), 'the name of a part is missing or ambiguous'],
    [
      'two dispositions',
      bodyOf(part('form-data; name="x"\r\nContent-Disposition: form-data; name="model"', 'x')),
      'the name of a part is missing or ambiguous',
    ],
    ['a folded header', bodyOf(part('form-data;\r\n name="model"', 'x')), 'header'],
    ['an encoded part', bodyOf(part('form-data; name="prompt"', 'eA==', 'Content-Transfer-Encoding: base64\r\n')), 'encoding'],
    ['a boundary within a longer line', bodyOf(part('form-data; name="file"', `\r\n--${boundary}x`)), 'line break'],
    // Parsers that accept other line endings, or a boundary at the start of a part, would find a different model.
    ...['x\n', 'x\r', '\n', '\r', ''].map(
      (before) =>
        [
          `a boundary after ${JSON.stringify(before)}`,
          bodyOf(model, part('form-data; name="file"', hidden(before))),
          'a boundary',
        ] as const,
    ),
    ['headers that are too long', bodyOf(part('form-data; name="file"', '', `X: ${'x'.repeat(20_000)}\r\n`)), 'too long'],
    ['too many parts', bodyOf(...Array(1_001).fill(part('form-data; name="x"', 'x'))), 'more than 1000 parts'],
    ['a field that is too long', bodyOf(part('form-data; name="prompt"', 'x'.repeat(1024 * 1024 + 1))), 'prompt is too long'],
  ])('rejects a multipart body with %s', (_what, body, message) => {
    for (const size of [1_000, body.length]) expect(() => scan(body, size)).toThrow(message);
    expect(() => scan(body)).toThrow(expect.objectContaining({ code: 'bad_json' }));
  });
});
