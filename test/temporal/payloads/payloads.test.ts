import { describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import fc from 'fast-check';
import { parseJsonOrThrow } from '../../../src/core/json/parse.ts';
import { checkPayload, createPayloadCodec, PayloadRejectedError } from '../../../src/temporal/payloads/payloads.ts';

const codec = createPayloadCodec();
const planted = 'my card number is 4111';

async function encode(value: unknown): Promise<Payload[]> {
  return codec.encode([defaultPayloadConverter.toPayload(value)]);
}

describe('payloads that may go to Temporal', () => {
  test.each([
    ['undefined', undefined],
    ['null', null],
    ['a count', 12.5],
    ['a boolean', true],
    ['an id', '0198c5f2-7d2e-7000-8000-000000000001'],
    ['a workflow id', 'conversation/0198c5f2-7d2e-7000-8000-000000000001/3'],
    ['a time', '2026-11-20T10:00:00.123+01:00'],
    ['a hash in base64url', 'n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg'],
    ['a model id', 'openai/gpt-4o-mini'],
    ['a note', 'cleanup: old conversations'],
    ['ids, counts and hashes in objects and lists', { ids: ['a1', 'b2'], counts: { waiting: 3 }, at: null }],
  ])('accepts a payload with %s', async (_name, value) => {
    checkPayload(value);
    expect(defaultPayloadConverter.fromPayload((await encode(value))[0] as Payload)).toEqual(value);
  });

  test.each([
    ['text', planted],
    ['a note with text', `cleanup: old conversations ${planted}`],
    ['a note inside an object', { title: 'cleanup: old conversations' }],
    ['text inside an object', { conversation_id: 'a', title: planted }],
    ['text in a list', [[{ deep: ['a', planted] }]]],
    ['text as a key', { [planted]: 1 }],
    ['a string longer than an id', 'a'.repeat(129)],
    ['an address', 'a@b.example'],
    ['text in another script', 'Grüße'],
    ['a line break after an id', 'abc\n'],
    ['bytes', new TextEncoder().encode(planted)],
    ['more than 16 KiB', Array.from({ length: 200 }, () => 'a'.repeat(100))],
    ['text that looks like a stack trace', `    at first\n${planted}`],
    ['text that looks like a definition', { definition: { type: 'a', queryDefinitions: [{ name: 'a', description: planted }] } }],
    ['a definition with details', { definition: { type: 'a' }, currentDetails: planted }],
  ])('rejects a payload with %s', async (_name, value) => {
    const error = await encode(value).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PayloadRejectedError);
    expect(String(error)).not.toContain('4111');
    if (!(value instanceof Uint8Array)) expect(() => checkPayload(value)).toThrow(PayloadRejectedError);
  });

  test('rejects text anywhere in a payload without quoting it in the error', async () => {
    const clean = fc.stringMatching(/^[a-z0-9]{0,8}$/);
    const text = fc.stringMatching(/^[a-z]{4,8} [a-z]{4,8}$/).map((text) => `${text} 4111`);
    const tree = fc.letrec<{ tree: unknown; leaf: unknown }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'small' },
        tie('leaf'),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(clean, tie('tree'), { maxKeys: 3 }),
      ),
      leaf: fc.oneof(clean, fc.integer(), fc.constant(null)),
    })).tree;
    await fc.assert(
      fc.asyncProperty(tree, clean, text, async (value, key, secret) => {
        await encode(value);
        const error = await encode([value, { [key]: [secret] }]).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(PayloadRejectedError);
        expect(String(error)).not.toContain('4111');
      }),
      { numRuns: 200 },
    );
  });

  test('accepts fixed messages and stacks in failures, but no other text', async () => {
    const marked = (content: unknown): Payload => {
      const payload = defaultPayloadConverter.toPayload(content);
      return { ...payload, metadata: { ...payload?.metadata, 'gateway-failure': Uint8Array.of(1) } };
    };
    await codec.encode([marked({ message: 'internal error', stack_trace: 'Error: internal error' })]);
    for (const content of [planted, { message: planted, title: 'a' }, { message: { deep: planted } }, [planted]])
      await expect(codec.encode([marked(content)])).rejects.toBeInstanceOf(PayloadRejectedError);
    await expect(encode({ message: planted, stack_trace: '' })).rejects.toBeInstanceOf(PayloadRejectedError);
  });

  test('accepts operator notes in workflow metadata, but no other text', async () => {
    const metadata = (currentDetails: string, description: string) => ({
      definition: { type: 'learningBatch', queryDefinitions: [{ name: 'status', description }] },
      currentDetails,
    });
    await encode(metadata('2 of 5 groups have ended.', 'Returns what the run does now.'));
    for (const bad of [metadata(planted, 'Returns what the run does now.'), metadata('2 of 5 groups have ended.', planted)])
      await expect(encode(bad)).rejects.toBeInstanceOf(PayloadRejectedError);
  });

  test('finds text even in a deeply nested payload', () => {
    const deep = (leaf: string): unknown => parseJsonOrThrow(`${'['.repeat(1_000)}"${leaf}"${']'.repeat(1_000)}`);
    checkPayload(deep('id'));
    expect(() => checkPayload(deep('two terms'))).toThrow(PayloadRejectedError);
  });

  test("rejects a payload that isn't JSON", () => {
    expect(() => checkPayload({ big: 1n })).toThrow(PayloadRejectedError);
  });
});
