/** Tests that content rules check all text of a request in the form in which a model reads it. */
import { expect, test } from '@jest/globals';
import { sealReasoning } from '../../../src/dialects/json/sealed-reasoning.ts';
import { readRequestTexts } from '../../../src/dialects/routes/rule-texts.ts';

const extractRequestTexts = (body: object): readonly string[] => readRequestTexts(Buffer.from(JSON.stringify(body)));
const of = (content: unknown): readonly string[] => extractRequestTexts({ messages: [{ role: 'user', content }] });

test('content rules check the text blocks of a message separately and joined', () => {
  const texts = of([
    { type: 'text', text: '4111 1111 ' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    { type: 'text', text: '1111 1111' },
  ]);
  expect(texts).toEqual(expect.arrayContaining(['4111 1111 ', '1111 1111', '4111 1111 1111 1111']));
  expect(texts.join()).not.toContain('AAAA');
  expect(of([{ type: 'text', text: 'one' }])).toEqual(['one']);
});

test('content rules check a data URL as text unless the API expects a data URL there', () => {
  const url = 'data:image/png;base64,iVBORw0KGgo=';
  expect(of([{ type: 'image_url', image_url: { url } }])).toEqual([]);
  expect(of(url)).toEqual([url]);
  expect(of([{ type: 'image_url', image_url: { url, detail: url } }])).toEqual([url]);
  for (const text of ['data:a/b;base64, call 4111 1111 1111 1111', 'data:text/plain;base64,AAAA\nada@example.com'])
    expect(of(text)).toEqual([text]);
});

test("content rules check reasoning that the gateway encoded, but not a vendor's encrypted reasoning", () => {
  const item = (encrypted: string): object => ({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: encrypted });
  const sealed = sealReasoning({ reasoning_content: 'call 4111 1111 1111 1111' });
  expect(extractRequestTexts({ input: [item(sealed), item('gAAAA')] })).toEqual(['call 4111 1111 1111 1111']);
});

const card = '4111 1111 1111 1111';

test.each<[string, object]>([
  ['the description of a tool', { tools: [{ type: 'function', function: { name: 'f', description: card, parameters: {} } }] }],
  [
    'a property of a schema',
    { tools: [{ name: 'f', input_schema: { type: 'object', properties: { id: { type: 'string', description: card } } } }] },
  ],
  ['the name of a property', { tools: [{ name: 'f', input_schema: { properties: { [card]: { type: ['string', 'null'] } } } }] }],
  ['an allowed value', { response_format: { json_schema: { schema: { properties: { type: { enum: [card] } } } } } }],
  ['a legacy function', { functions: [{ name: 'f', description: card }] }],
  ['a prediction', { prediction: { type: 'content', content: card } }],
  ['metadata', { metadata: { note: card } }],
  ['the end user', { user: card }],
  ['a stop sequence', { stop: ['END', card] }],
  ['a member that the gateway does not know', { vendor_extension: [{ hints: [card] }] }],
])('content rules check %s', (_place, members) => {
  const texts = extractRequestTexts({ model: 'one/echo', messages: [{ role: 'user', content: 'hi' }], ...members });
  expect(texts).toContain(card);
  expect(texts).toContain('hi');
});

test('content rules see the decoded JSON arguments of a tool call', () => {
  const call = { id: 'call_1', type: 'function', function: { name: 'pay', arguments: '{"note":"4111\\u00201111 1111 1111"}' } };
  expect(extractRequestTexts({ messages: [{ role: 'assistant', tool_calls: [call] }] })).toContain(card);
  const item = { type: 'function_call', call_id: 'call_1', name: 'pay', arguments: call.function.arguments };
  expect(extractRequestTexts({ input: [item] })).toContain(card);
  expect(extractRequestTexts({ input: [{ ...item, arguments: 'not JSON \\u0020' }] })).toEqual(['pay', 'not JSON \\u0020']);
});

test('content rules check long numbers even inside text that looks like an identifier', () => {
  const card = '4111111111111111';
  const values = [`msg-${card}`, `file-4111-1111-1111-1111`, `user_${card}`];
  const messages = [
    ...values.map((id) => ({ id, tool_call_id: 'call_1' })),
    { role: `user/${card}`, type: 'user-4111-1111-1111-1111' },
    { content: [{ type: 'thinking', signature: card }] },
  ];
  const expected = [...values, `user/${card}`, 'user-4111-1111-1111-1111', card];
  expect(extractRequestTexts({ messages })).toEqual(expected);
  // Ids and names that real vendors use are left out, no matter which digits they contain.
  const ids = ['call_1234567', '12345678-1234-4123-8123-123456789012', 'toolu_01A09q90qw90lq917835lq9'];
  expect(extractRequestTexts({ messages: ids.map((id) => ({ id, type: 'text_editor_20250429', role: 'tool' })) })).toEqual([]);
});

test('content rules check unknown members of a request, whatever their names', () => {
  const names = { id: 'falcon', status: 'falcon-1', object: 'falcon-2', role: 'falcon-3' };
  expect(extractRequestTexts({ ...names, previous_response_id: 'resp_1' })).toEqual(Object.values(names));
});

test("content rules check numbers in a tool's input", () => {
  const call = { type: 'tool_use', id: 'toolu_1', name: 'pay', input: { card: 4111111111111111, parts: [12] } };
  const texts = extractRequestTexts({ max_tokens: 50, messages: [{ role: 'assistant', content: [call] }] });
  expect(new Set(texts)).toEqual(new Set(['pay', 'card', '4111111111111111', 'parts', '12']));
});

test('content rules ignore identifiers, binary content and names defined by the API', () => {
  const body = {
    model: 'vendor/model',
    previous_response_id: 'resp_1',
    tools: [{ type: 'web_search_preview' }],
    messages: [
      { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'function' }] },
      {
        role: 'tool',
        tool_call_id: 'call_1',
        content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }],
      },
    ],
    input: [{ type: 'message', id: 'msg_1', status: 'completed', content: [{ type: 'input_file', file_data: 'AAAA' }] }],
  };
  expect(extractRequestTexts(body)).toEqual([]);
});

test('content rules see an escaped key even if V8 confuses it with a key from another request', () => {
  const read = (text: string): readonly string[] => readRequestTexts(Buffer.from(text));
  expect(read('{"model":"m","messages":[],"metadata":{"ticket_title":1,"secret w\\\\u0":1}}')).toContain('secret w\\u0');
  expect(read('{"model":"m","messages":[],"metadata":{"ticket_title":1,"secret w\\u006frd":1}}')).toContain('secret word');
  // Both keys have the same beginning in the text, but they aren't duplicates.
  expect(read('{"model":"m","messages":[],"metadata":{"ticket_title":1,"secret w\\\\u0":1,"secret w\\u006frd":1}}')).toContain(
    'secret word',
  );
});
