/** Content rules evaluate all text of a request, as a model reads it. */
import { expect, test } from '@jest/globals';
import { sealReasoning } from '../../../src/dialects/json/sealed-reasoning.ts';
import { extractRequestTexts } from '../../../src/dialects/routes/rule-texts.ts';

const of = (content: unknown): string[] => extractRequestTexts({ messages: [{ role: 'user', content }] });

test('blocks of one message are evaluated one by one and joined', () => {
  const texts = of([
    { type: 'text', text: '4111 1111 ' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    { type: 'text', text: '1111 1111' },
  ]);
  expect(texts).toEqual(expect.arrayContaining(['4111 1111 ', '1111 1111', '4111 1111 1111 1111']));
  expect(texts.join()).not.toContain('AAAA');
  expect(of([{ type: 'text', text: 'one' }])).toEqual(['one']);
});

test('text after what resembles an image is text', () => {
  expect(of('data:image/png;base64,iVBORw0KGgo=')).toEqual([]);
  for (const text of ['data:a/b;base64, call 4111 1111 1111 1111', 'data:text/plain;base64,AAAA\nada@example.com'])
    expect(of(text)).toEqual([text]);
});

test('reasoning that the gateway encoded is text, as translated vendors read it; that of a vendor is not', () => {
  const item = (encrypted: string): object => ({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: encrypted });
  const sealed = sealReasoning({ reasoning_content: 'call 4111 1111 1111 1111' });
  expect(extractRequestTexts({ input: [item(sealed), item('gAAAA')] })).toEqual(['call 4111 1111 1111 1111']);
});
