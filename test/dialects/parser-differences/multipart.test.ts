/** Tests that the content rules check everything that any parser might read from the fields of an upload. */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { GatewayError } from '../../../src/core/errors.ts';
import { createPartScanner } from '../../../src/dialects/media/multipart.ts';
import { uploadKinds } from '../../../src/dialects/media/uploads.ts';
import { compileRules, evaluateTexts } from '../../../src/guardrails/rules.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { createRandom } from '../../support/random.ts';
import { secretText } from './json-bodies.ts';
import { boundary, type MultipartBody, writeMultipartBody } from './multipart-bodies.ts';
import { readWithPython } from './python-readings.ts';

const bodies = isExhaustive ? 4_000 : 600;
const { fieldNames, fileNames } = uploadKinds.transcriptions;
const contentType = `multipart/form-data; boundary=${boundary}`;

const { input: rules } = compileRules([{ class: 'email', place: 'input', action: 'block' }]);

/** Reports whether a rule blocks the body. Null if the gateway rejects it. */
async function isBlocked({ bytes }: MultipartBody, chunkBytes: number): Promise<boolean | null> {
  const texts: string[] = [];
  try {
    const scanner = createPartScanner(boundary, fieldNames, { fileNames, texts });
    for (let start = 0; start < bytes.length; start += chunkBytes) scanner.push(bytes.subarray(start, start + chunkBytes));
    scanner.end();
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'bad_json') return null;
    throw error;
  }
  if (!rules) throw new Error('no rules');
  return (await evaluateTexts(rules, texts, { project: 'one' })).blockedBy !== null;
}

/** Parses the body like Node's own `fetch`. */
async function readWithNode({ bytes }: MultipartBody): Promise<string[]> {
  const form = await new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } }).formData().catch(() => null);
  return [...(form ?? [])].flatMap(([name, value]) => {
    if (typeof value === 'string') return [name, value];
    return [name, value.name];
  });
}

/**
 * A lenient parser. It accepts boundaries after any line break and headers in any order, and undoes percent-encoding
 * and backslash escapes.
 */
function readCarelessly({ bytes }: MultipartBody): string[] {
  const texts: string[] = [];
  for (const part of bytes.toString('utf8').split(new RegExp(`(?:^|\\r\\n|\\n|\\r)--${boundary}[ \\t]*`))) {
    const [, head = '', content = ''] = /^(?:--)?(?:\r\n|\n|\r)?([\s\S]*?)(?:\r\n\r\n|\n\n|\r\r)([\s\S]*)$/.exec(part) ?? [];
    if (!/content-disposition/i.test(head)) continue;
    texts.push(head, head.replaceAll(/%40/g, '@'), head.replaceAll('\\', ''));
    const name = /[; ]name="?([^";\r\n]*)/i.exec(head)?.[1] ?? '';
    if (!(/filename/i.test(head) && fileNames.has(name))) texts.push(content, Buffer.from(content, 'base64').toString());
  }
  return texts;
}

const hasSecret = (text: string): boolean => text.replace(/[\p{Cc}\ufffd]/gu, '').includes(secretText);

describe('uploads that parsers read differently', () => {
  const unchecked: string[] = [];
  const counts = { refused: 0, blocked: 0 };

  beforeAll(async () => {
    const random = createRandom(34);
    const written = Array.from({ length: bodies }, () => writeMultipartBody(random, true));
    const python = await readWithPython(
      written.map(({ bytes }) => ({ kind: 'multipart', body: bytes, contentType, fileNames: [...fileNames] })),
    );
    for (const [index, body] of written.entries()) {
      const blocked = await isBlocked(body, random.between(1, 200));
      if (blocked === null) counts.refused += 1;
      else if (blocked) counts.blocked += 1;
      else {
        const readings = { node: await readWithNode(body), careless: readCarelessly(body), python: python[index]?.texts ?? [] };
        const reader = Object.entries(readings).find(([, texts]) => texts.some(hasSecret));
        if (reader) unchecked.push(`${reader[0]}: ${body.how}`);
      }
    }
  });

  test('content rules check every form field that any multipart parser might read', () => {
    expect(unchecked).toEqual([]);
  });

  test("rules can block many ambiguous uploads that aren't rejected outright", () => {
    expect(counts.blocked).toBeGreaterThan(bodies / 5);
  });
});

test("doesn't reject or block ordinary uploads", async () => {
  const random = createRandom(7);
  for (let count = 0; count < 200; count += 1) {
    const body = writeMultipartBody(random, false);
    expect([body.how, await isBlocked(body, random.between(1, 200))]).toEqual([body.how, false]);
  }
});
