/**
 * Tests which URLs and names callers of the video routes can send. Manipulated ones are rejected before we send any
 * request.
 */
import { describe, expect, test } from '@jest/globals';
import { buildVendorHosts } from '../../src/vendors/vendor-hosts.ts';
import { getFileKey, getFileName, parseFileAddress, parseOperationName } from '../../src/vendors/video-address.ts';

const baseUrl = 'https://video.example:8443/v1beta';
const hosts = buildVendorHosts(baseUrl, ['files.example', 'other.example:9443']);

describe('the name of a video operation', () => {
  test.each([
    ['models/veo-3.1/operations/abc_1.2-3', 'models/veo-3.1/operations/abc_1.2-3'],
    ['models/a:b/operations/x', 'models/a:b/operations/x'],
    ['operations/abc', 'operations/abc'],
    [`${baseUrl}/models/veo/operations/abc`, 'models/veo/operations/abc'],
  ])('accepts %s as a video operation', (text, name) => expect(parseOperationName(text, baseUrl)).toBe(name));

  test.each([
    '',
    'abc',
    '/operations/abc',
    'operations/',
    'operations/..',
    'operations/a/../b',
    'models/../operations/a',
    'models/./operations/a',
    'operations/a?key=1',
    'operations/a%2f..',
    'operations/a#b',
    'operations/a\n',
    'operations\\a',
    'OPERATIONS/a',
    `${baseUrl}/../operations/a`,
    `${baseUrl}//operations/a`,
    `${baseUrl}/files/a`,
    `${baseUrl}/operations/a?x=1`,
    'https://video.example/v1beta/operations/a',
    'https://video.example:8443/operations/a',
    'https://video.example:8443/v1/operations/a',
  ])('rejects %j as a video operation', (text) => expect(parseOperationName(text, baseUrl)).toBeNull());
});

test('rejects names and URLs of videos that are too long', () => {
  expect(parseOperationName(`operations/${'a'.repeat(2_000)}`, baseUrl)).toBeNull();
  expect(parseFileAddress(`https://files.example/${'a'.repeat(9_000)}`, hosts)).toBeNull();
});

/** URLs of another host, or URLs that two parsers may read differently, for `operation` and `uri`. */
const tricks = [
  ['user-info', 'https://key@video.example:8443/v1beta/'],
  ['user info that resembles the host', 'https://video.example:8443@evil.example/v1beta/'],
  ['another port', 'https://video.example:9443/v1beta/'],
  ['the usual port', 'https://video.example/v1beta/'],
  ['another scheme', 'http://video.example:8443/v1beta/'],
  ['no network scheme', 'file:///v1beta/'],
  ['data', 'data:text/plain,/v1beta/'],
  ['a trailing dot', 'https://video.example.:8443/v1beta/'],
  ['a suffix of the host', 'https://video.example.evil.example:8443/v1beta/'],
  ['a host that ends like it', 'https://evilvideo.example:8443/v1beta/'],
  ['a host below it', 'https://sub.video.example:8443/v1beta/'],
  ['upper case', 'https://VIDEO.example:8443/v1beta/'],
  ['an upper-case scheme', 'HTTPS://video.example:8443/v1beta/'],
  ['a backslash', 'https://video.example:8443\\@evil.example/v1beta/'],
  ['backslashes for slashes', 'https:\\\\video.example:8443\\v1beta\\'],
  ['an encoded slash', 'https://video.example:8443%2f@evil.example/v1beta/'],
  ['an encoded letter in the host', 'https://vide%6f.example:8443/v1beta/'],
  ['a wide dot', 'https://video\u3002example:8443/v1beta/'],
  ['no scheme', '//video.example:8443/v1beta/'],
  ['one slash', 'https:/video.example:8443/v1beta/'],
  ['three slashes', 'https:///video.example:8443/v1beta/'],
  ['a leading space', ' https://video.example:8443/v1beta/'],
  ['a tab within', 'https://video.ex\tample:8443/v1beta/'],
  ['a line feed within', 'https://video.example:8443/\nv1beta/'],
  ['an IPv4 address', 'https://127.0.0.1:8443/v1beta/'],
  ['an IPv6 address', 'https://[::1]:8443/v1beta/'],
  ['a decimal address', 'https://2130706433:8443/v1beta/'],
  ['the metadata service', 'http://169.254.169.254/v1beta/'],
] as const;

test.each(tricks)('rejects addresses with %s', (_trick, start) => {
  expect(parseOperationName(`${start}models/veo/operations/abc`, baseUrl)).toBeNull();
  expect(parseFileAddress(`${start}files/abc:download?alt=media`, hosts)).toBeNull();
});

test.each([
  ['decimal', 'http://2130706433:8080/v1beta/'],
  ['octal', 'http://0177.0.0.1:8080/v1beta/'],
  ['hexadecimal', 'http://0x7f.1:8080/v1beta/'],
  ['short', 'http://127.1:8080/v1beta/'],
  ['IPv6-mapped', 'http://[::ffff:127.0.0.1]:8080/v1beta/'],
  ['a name of the machine', 'http://localhost:8080/v1beta/'],
])("rejects the vendor's IP address in another notation: %s", (_spelling, start) => {
  const own = 'http://127.0.0.1:8080/v1beta';
  expect(parseOperationName(`${start}operations/abc`, own)).toBeNull();
  expect(parseFileAddress(`${start}files/abc`, buildVendorHosts(own, []))).toBeNull();
});

describe('the URL of a video file', () => {
  test.each([
    `${baseUrl}/files/abc:download?alt=media`,
    'https://video.example:8443/download/v1beta/files/abc',
    'https://files.example/x/y.mp4?signature=a%2Fb',
    'https://other.example:9443/y.mp4',
  ])('accepts a video file at %s', (text) => expect(parseFileAddress(text, hosts)?.href).toBe(text));

  test.each([
    `${baseUrl}/files/a/../../secret`,
    `${baseUrl}/files/%2e%2e/secret`,
    `${baseUrl}/files/a%2Fb`,
    `${baseUrl}/files/a%5cb`,
    `${baseUrl}/files/a\\b`,
    'http://files.example/y.mp4',
    'https://other.example/y.mp4',
    'files/abc',
  ])('rejects a video file at %s', (text) => expect(parseFileAddress(text, hosts)).toBeNull());

  test('recognizes a video file in every spelling of its URL', () => {
    const spellings = [
      `${baseUrl}/files/abc:download?alt=media`,
      `${baseUrl}/files/abc:download?alt=media&x=1`,
      'https://video.example:8443/download/v1beta/files/abc',
      'https://video.example:8443/v1/files/abc:DOWNLOAD',
    ];
    expect(spellings.map(getFileKey)).toEqual(Array(4).fill('files/abc'));
    expect(getFileKey('https://files.example/x/y.mp4?signature=1')).toBe('files.example/x/y.mp4');
  });

  test.each(['/v1beta/files', '/v1beta/files/', '/v1beta/models', '/v1beta/files/a/b', '/v1beta/files/a:download/list'])(
    'rejects a video file at another path of the host: %s',
    (path) => expect(getFileName(new URL(`https://video.example:8443${path}`))).toBeNull(),
  );
});
