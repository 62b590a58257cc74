/** Creates multipart bodies that contain a secret. Parsers disagree on how to read them. */
import type { Random } from '../../support/random.ts';
import { secretText } from './json-bodies.ts';

export const boundary = 'b0undary';

export interface MultipartBody {
  readonly bytes: Buffer;
  readonly how: string;
}

interface Part {
  /** The header lines, each with its line break. */
  readonly head: string;
  readonly content: Buffer | string;
}

const part = (head: string, content: Buffer | string): Part => ({ head: `${head}\r\n`, content });
const field = (name: string, value: Buffer | string, more = ''): Part =>
  part(`Content-Disposition: form-data; name="${name}"${more}`, value);
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const encodedText = secretText.replace('@', '%40');

const planted: readonly ((random: Random) => Part)[] = [
  () => field('user', secretText),
  () => field('prompt', `for ${secretText}`),
  () => field('Prompt', secretText),
  () => field('include[]', secretText),
  () => field(secretText, 'x'),
  () => field('x', secretText, '\r\nContent-Type: text/plain'),
  () => field('x', Buffer.from(secretText, 'utf16le'), '\r\nContent-Type: text/plain; charset=utf-16le'),
  () => field('x', secretText, '; filename="notes.txt"'),
  () => field('notes', secretText, '; filename=""'),
  () => field('file', 'x', `; filename="${secretText}"`),
  () => field('file', 'x', `; filename=${secretText}`),
  () => field('file', 'x', `; filename="ada\\@example.com"`),
  () => field('file', 'x', `; filename*=UTF-8''${encodedText}`),
  () => field('file', 'x', `; filename*0="ada@exa"; filename*1="mple.com"`),
  () => field('file', 'x', `; filename="=?utf-8?B?${base64(secretText)}?="`),
  () => field('file', 'x', `; filename="${encodedText}"`),
  () => field('file', 'x', `; filename="a"\r\nContent-Type: audio/mpeg; name="${secretText}"`),
  () => field('file', 'x', `; filename="a"\r\nX-Note: ${secretText}`),
  () => field('x', base64(secretText), '\r\nContent-Transfer-Encoding: base64'),
  () => field('x', secretText.replace('@', '=40'), '\r\nContent-Transfer-Encoding: quoted-printable'),
  () => field('x', `--inner\r\n\r\n${secretText}\r\n--inner--`, '\r\nContent-Type: multipart/mixed; boundary=inner'),
  () =>
    field(
      'file',
      `--inner\r\nContent-Disposition: form-data; name="user"\r\n\r\n${secretText}\r\n--inner--`,
      '; filename="a"\r\nContent-Type: multipart/mixed; boundary=inner',
    ),
  () => field('file', `Subject: x\r\n\r\n${secretText}`, '; filename="a"\r\nContent-Type: message/rfc822'),
  (random) => {
    const end = random.pick(['\n', '\r', '\r\n']);
    const start = random.pick(['x', '', 'x\r\n']);
    return field(
      'file',
      `${start}${end}--${boundary}${end}Content-Disposition: form-data; name="user"${end}${end}${secretText}`,
      '; filename="a"',
    );
  },
  () => part(`content-disposition:form-data;name=user`, secretText),
  () => part(`Content-Disposition: form-data;\r\n name="user"`, secretText),
  () => part(`Content-Disposition: form-data; name="user"; name="file"; filename="a"`, secretText),
  () => part(`Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Disposition: form-data; name="user"`, secretText),
  () => part(`Content-Disposition: attachment; name="user"`, secretText),
  () => part(`Content-Type: text/plain`, secretText),
  () => field('us\u0000er', secretText),
  () => field('x', Buffer.from(`ada\u00ff@example.com ${secretText}`, 'latin1')),
  () => field('_charset_', 'utf-16le'),
];

const ordinary: readonly ((random: Random) => Part)[] = [
  () => field('prompt', 'a calm voice'),
  () => field('language', 'en'),
  () => field('timestamp_granularities[]', 'word'),
  () => field('include[]', 'logprobs'),
  () => field('file', Buffer.from([0, 255, 13, 10, 45, 45, 98]), '; filename="a b.mp3"\r\nContent-Type: audio/mpeg'),
];

const pickOf = <Item>(random: Random, items: readonly Item[]): Item => {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
};

const mutations: readonly ((text: string) => string)[] = [
  (text) => text.replaceAll('\r\n', '\n'),
  (text) => `preamble ${secretText}\r\n${text}`,
  (text) => `\r\n${text}`,
  (text) => `${text}--${boundary}\r\nContent-Disposition: form-data; name="user"\r\n\r\n${secretText}\r\n--${boundary}--\r\n`,
  (text) => `${text}epilogue ${secretText}`,
  (text) => text.replace(`--${boundary}\r\n`, `--${boundary} \t\r\n`),
  (text) => text.replace(`\r\n--${boundary}--`, `\r\n--${boundary}`),
  (text) => text.replaceAll('Content-Disposition:', 'CONTENT-DISPOSITION :'),
];

export function writeMultipartBody(random: Random, isPlanted: boolean): MultipartBody {
  const names = new Set<string>();
  const parts = [field('model', 'one/whisper'), ...Array.from({ length: random.below(3) }, () => pickOf(random, ordinary)(random))].filter(
    ({ head }) => !names.has(head) && names.add(head),
  );
  if (isPlanted) parts.splice(random.below(parts.length + 1), 0, pickOf(random, planted)(random));
  const bytes = Buffer.concat([
    ...parts.flatMap(({ head, content }) => [Buffer.from(`--${boundary}\r\n${head}\r\n`), Buffer.from(content), Buffer.from('\r\n')]),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  const mutate = isPlanted && random.chance(0.2) ? pickOf(random, mutations) : null;
  const mutated = mutate ? Buffer.from(mutate(bytes.toString('latin1')), 'latin1') : bytes;
  return { bytes: mutated, how: JSON.stringify(mutated.toString('latin1')) };
}
