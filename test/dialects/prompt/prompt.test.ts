import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PromptRoute } from '../../../src/core/call.ts';
import { normalizeMessage, parsePrompt } from '../../../src/dialects/prompt/prompt.ts';

const user = (text: string) => ({ role: 'user', text, toolCalls: [] });
const assistant = (text: string, ...toolCalls: { name: string; arguments: string }[]) => ({ role: 'assistant', text, toolCalls });
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');
const base64 = (content: string) => Buffer.from(content).toString('base64');

describe('chat', () => {
  test('stores tool results and system prompts separately from chat messages', () => {
    const { messages, extras, isPrefilled } = parsePrompt('chat', {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Weather in Oslo?' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'check', arguments: '{"city" : "Oslo"}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: '4 degrees' },
        { role: 'assistant', content: 'It is 4 degrees.' },
        {
          role: 'developer',
          content: [
            { type: 'text', text: 'Use' },
            { type: 'text', text: 'Kelvin.' },
          ],
        },
      ],
    });
    expect(messages).toEqual([
      user('Weather in Oslo?'),
      assistant('', { name: 'check', arguments: '{"city" : "Oslo"}' }),
      assistant('It is 4 degrees.'),
    ]);
    expect(extras).toEqual([
      { position: 0, kind: 'system', type: 'system', text: 'Be brief.' },
      { position: 2, kind: 'tool_result', type: 'tool', text: '4 degrees' },
      { position: 3, kind: 'system', type: 'developer', text: 'Use' },
      { position: 3, kind: 'system', type: 'developer', text: 'Kelvin.' },
    ]);
    expect(isPrefilled).toBe(false);
  });

  test('stores only the type, size and hash of images, audio and files', () => {
    const { messages, extras } = parsePrompt('chat', {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${base64('pixels')}`, detail: 'low' } },
            { type: 'image_url', image_url: { url: 'https://images.test/cat.png' } },
            { type: 'input_audio', input_audio: { data: base64('sound'), format: 'wav' } },
            { type: 'file', file: { file_data: `data:application/pdf;base64,${base64('pages')}`, filename: 'a.pdf' } },
            { type: 'text', text: 'Tell me.' },
          ],
        },
      ],
    });
    expect(messages).toEqual([user('What is this?\nTell me.')]);
    expect(extras).toEqual([
      { position: 0, kind: 'binary', type: 'image_url', bytes: 6, sha256: sha256('pixels'), media_type: 'image/png' },
      { position: 0, kind: 'other', type: 'image_url', text: '{"type":"image_url","image_url":{"url":"https://images.test/cat.png"}}' },
      { position: 0, kind: 'binary', type: 'input_audio', bytes: 5, sha256: sha256('sound'), media_type: 'audio/wav' },
      { position: 0, kind: 'binary', type: 'file', bytes: 5, sha256: sha256('pages'), media_type: 'application/pdf' },
      { position: 0, kind: 'other', type: 'file', text: expect.stringContaining('"filename":"a.pdf"') },
    ]);
    expect(JSON.stringify(extras)).not.toContain(base64('pixels'));
  });

  test('stores a refusal as assistant text', () => {
    const { messages } = parsePrompt('chat', {
      messages: [
        { role: 'assistant', content: null, refusal: 'I cannot.' },
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'done' },
      ],
    });
    expect(messages).toEqual([assistant('I cannot.'), assistant('', { name: 'f', arguments: '{}' })]);
  });

  test('replaces a data URL within text with its type, size and hash', () => {
    const pixels = 'pixels'.repeat(30);
    const { messages } = parsePrompt('chat', {
      messages: [{ role: 'user', content: `see ![](data:image/png;base64,${base64(pixels)}) here` }],
    });
    expect(messages).toEqual([user(`see ![]([image/png, 180 bytes, sha256 ${sha256(pixels)}]) here`)]);
  });

  test('keeps a data URL that is shorter than its replacement', () => {
    const text = `see ![](data:image/png;base64,${base64('pixels')}) here`;
    expect(parsePrompt('chat', { messages: [{ role: 'user', content: text }] }).messages).toEqual([user(text)]);
  });

  test('scans 2 MB of repeated data URL prefixes in linear time', () => {
    const text = ';base64,'.repeat(250_000);
    expect(parsePrompt('chat', { messages: [{ role: 'user', content: text }] }).messages).toEqual([user(text)]);
  });

  test('stores the system prompt and the newest messages of a very long prompt', () => {
    const read = (count: number) => {
      const said = Array.from({ length: count }, (_value, index) => ({ role: 'user', content: String(index) }));
      return parsePrompt('responses', { input: [{ role: 'developer', content: 'Be brief.' }, ...said] });
    };
    const { messages, extras } = read(1_000_000);
    expect([messages.length, messages[0]?.text, messages.at(-1)?.text]).toEqual([1_001, '998999', '999999']);
    expect(extras).toEqual([{ position: 0, kind: 'system', type: 'developer', text: 'Be brief.' }]);
    expect(read(2_500).messages[0]).toEqual(read(2_999).messages[0]);
    expect(read(1_999).messages).toHaveLength(1_999);
  });

  test('keeps only the newest parts of a message with a million blocks', () => {
    const blocks = Array.from({ length: 1_000_000 }, (_value, n) => ({ type: 'image', n }));
    const { extras } = parsePrompt('messages', { messages: [{ role: 'user', content: [{ type: 'tool_result', content: blocks }] }] });
    expect(extras).toHaveLength(2_000);
    expect(extras.at(-1)).toEqual({ position: 0, kind: 'other', type: 'image', text: '{"type":"image","n":999999}' });
  });

  test('stores a block with a million data URLs unchanged', () => {
    const { extras } = parsePrompt('chat', {
      messages: [{ role: 'user', content: [{ type: 'x', all: Array(1_000_000).fill('data:,') }] }],
    });
    expect(extras).toMatchObject([{ kind: 'other', type: 'x', text: expect.stringMatching(/^\{"type":"x","all":\["data:,",/) }]);
  });

  test('truncates stored text after four million characters', () => {
    const turn = { text: 'x'.repeat(9_000_000), toolCalls: Array(1_000_000).fill({ name: 'check', arguments: '{}' }) };
    const message = normalizeMessage('assistant', turn);
    expect([message?.text.length, message?.toolCalls.length]).toEqual([4_194_304, 128]);
  });

  test("doesn't truncate stored text inside of a word of up to 4,096 characters", () => {
    const start = 'x '.repeat(2_097_152 - 20);
    const stored = (end: string) => normalizeMessage('user', { text: `${start}${end}`, toolCalls: [] })?.text.slice(start.length);
    expect(stored('postgres://user:hunter2Secret9pass@db.internal/prod')).toBe('');
    expect(stored(`the key\n${'k'.repeat(40)} end`)).toBe('the key');
    expect(stored(`${'k'.repeat(40)}`)).toBe('k'.repeat(40));
    expect(stored(`${'k'.repeat(41)}`)).toBe('');
    expect(normalizeMessage('user', { text: `x ${'k'.repeat(5_000_000)}`, toolCalls: [] })?.text).toHaveLength(4_194_304);
  });

  test('leaves text unchanged if it only mentions data URLs', () => {
    const text = 'a data: URL ends its head with ;base64, you know; data:x,;base64,y';
    expect(parsePrompt('chat', { messages: [{ role: 'user', content: text }] }).messages).toEqual([user(text)]);
  });
});

describe('messages', () => {
  test('stores text and tool calls as messages, but tool results and thinking separately', () => {
    const { messages, extras } = parsePrompt('messages', {
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Weather?', cache_control: { type: 'ephemeral' } }] },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'Hmm.', signature: 'c2ln' },
            { type: 'redacted_thinking', data: base64('sealed') },
            { type: 'text', text: 'Let me ' },
            { type: 'text', text: 'check.' },
            { type: 'tool_use', id: 't1', name: 'check', input: { city: 'Oslo', days: 1 } },
          ],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 't1',
              content: [
                { type: 'text', text: '4' },
                { type: 'image', source: { type: 'base64', media_type: 'image/png', data: base64('map') } },
              ],
            },
          ],
        },
        { role: 'assistant', content: '4 degrees.' },
        {
          role: 'user',
          content: [
            { type: 'document', title: 'Trip', source: { type: 'base64', media_type: 'application/pdf', data: base64('pdf') } },
            { type: 'text', text: 'Thanks' },
          ],
        },
      ],
    });
    expect(messages).toEqual([
      user('Weather?'),
      assistant('Let me check.', { name: 'check', arguments: '{"city":"Oslo","days":1}' }),
      assistant('4 degrees.'),
      user('Thanks'),
    ]);
    expect(extras).toEqual([
      { position: 0, kind: 'system', type: 'system', text: 'Be brief.' },
      { position: 1, kind: 'thinking', type: 'thinking', text: 'Hmm.' },
      { position: 1, kind: 'binary', type: 'redacted_thinking', bytes: 6, sha256: sha256('sealed'), media_type: null },
      { position: 2, kind: 'tool_result', type: 'tool_result', text: '4' },
      { position: 2, kind: 'binary', type: 'image', bytes: 3, sha256: sha256('map'), media_type: 'image/png' },
      { position: 3, kind: 'binary', type: 'document', bytes: 3, sha256: sha256('pdf'), media_type: 'application/pdf' },
      { position: 3, kind: 'other', type: 'document', text: expect.stringContaining('"title":"Trip"') },
    ]);
  });

  test('treats a final assistant message as a prefill', () => {
    const begun = parsePrompt('messages', {
      messages: [
        { role: 'user', content: 'JSON please' },
        { role: 'assistant', content: '{' },
      ],
    });
    expect(begun.isPrefilled).toBe(true);
    const answered = parsePrompt('messages', {
      messages: [
        { role: 'assistant', content: 'Hi' },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'x' }] },
      ],
    });
    expect(answered.isPrefilled).toBe(false);
  });
});

describe('responses', () => {
  test('stores a string input as a user message', () => {
    expect(parsePrompt('responses', { instructions: 'Be brief.', input: 'Hi' })).toEqual({
      messages: [user('Hi')],
      extras: [{ position: 0, kind: 'system', type: 'instructions', text: 'Be brief.' }],
      isPrefilled: false,
    });
  });

  test('merges the items of an earlier response into a single assistant message', () => {
    const { messages, extras } = parsePrompt('responses', {
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'Weather?' },
            { type: 'input_image', image_url: `data:image/png;base64,${base64('sky')}` },
          ],
        },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hmm.' }], encrypted_content: base64('sealed') },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Let me check.', annotations: [] }] },
        { type: 'function_call', call_id: 'c1', name: 'check', arguments: '{"city":"Oslo"}' },
        { type: 'function_call', call_id: 'c2', name: 'check', arguments: '{"city":"Rome"}' },
        { type: 'function_call_output', call_id: 'c1', output: '4' },
        { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: '14' }] },
        { role: 'assistant', content: [{ type: 'output_text', text: '4 and 14.' }] },
        { type: 'web_search_call', id: 'w', status: 'completed' },
        { type: 'message', role: 'user', content: 'Thanks' },
      ],
    });
    expect(messages).toEqual([
      user('Weather?'),
      assistant('Let me check.', { name: 'check', arguments: '{"city":"Oslo"}' }, { name: 'check', arguments: '{"city":"Rome"}' }),
      assistant('4 and 14.'),
      user('Thanks'),
    ]);
    expect(extras.map(({ position, kind, type }) => ({ position, kind, type }))).toEqual([
      { position: 0, kind: 'binary', type: 'input_image' },
      { position: 1, kind: 'thinking', type: 'reasoning' },
      { position: 1, kind: 'binary', type: 'reasoning' },
      { position: 2, kind: 'tool_result', type: 'function_call_output' },
      { position: 2, kind: 'tool_result', type: 'function_call_output' },
      { position: 3, kind: 'other', type: 'web_search_call' },
    ]);
  });
});

describe('unusual input', () => {
  const routes = fc.constantFrom<PromptRoute>('chat', 'messages', 'responses');
  const word = fc.constantFrom(
    'user',
    'assistant',
    'system',
    'tool',
    'text',
    'tool_use',
    'tool_result',
    'image',
    'thinking',
    'function_call',
    'message',
    'data:,x',
  );
  const key = fc.constantFrom(
    'messages',
    'input',
    'system',
    'role',
    'type',
    'content',
    'text',
    'tool_calls',
    'function',
    'name',
    'arguments',
    'source',
    'data',
    'media_type',
    'image_url',
    'url',
  );
  const { body } = fc.letrec((tie) => ({
    body: fc.oneof(
      { maxDepth: 6 },
      fc.jsonValue(),
      word,
      fc.array(tie('body'), { maxLength: 4 }),
      fc.dictionary(key, tie('body'), { maxKeys: 5 }),
    ),
  }));

  test('converts any prompt to JSON that PostgreSQL can store', () => {
    fc.assert(
      fc.property(routes, body, (route, json) => {
        for (const request of [json, { messages: json, input: json, system: json }, { messages: [json], input: [json] }]) {
          const { messages, extras } = parsePrompt(route, request);
          JSON.parse(JSON.stringify({ messages, extras }), (_key, value) => {
            if (typeof value === 'string') expect(value.isWellFormed() && !value.includes('\0')).toBe(true);
          });
          for (const extra of extras) expect(extra.position).toBeLessThanOrEqual(messages.length);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('accepts prompts that are nested a hundred thousand levels deep', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    const content = [
      { type: 'tool_use', name: 'f', input: deep },
      { type: 'new', deep },
      { type: 'tool_result', content: deep },
    ];
    expect(parsePrompt('messages', { messages: [{ role: 'assistant', content }] }).messages).toEqual([
      assistant('', { name: 'f', arguments: '' }),
    ]);
  });

  test('replaces long base64 strings in unknown blocks with their hash', () => {
    const data = base64('x'.repeat(3_000));
    const { extras } = parsePrompt('chat', { messages: [{ role: 'user', content: [{ type: 'hologram', payload: { blob: data } }] }] });
    expect(extras).toEqual([
      { position: 0, kind: 'binary', type: 'hologram', bytes: 3_000, sha256: sha256('x'.repeat(3_000)), media_type: null },
      {
        position: 0,
        kind: 'other',
        type: 'hologram',
        text: `{"type":"hologram","payload":{"blob":"sha256:${sha256('x'.repeat(3_000))}"}}`,
      },
    ]);
  });

  test('drops messages without any text or tool calls', () => {
    expect(normalizeMessage('assistant', { text: ' \n', toolCalls: [{ name: '', arguments: '{}' }] })).toBeNull();
    expect(normalizeMessage('user', { text: 'a\0\ud800', toolCalls: [] })).toEqual(user('a\ufffd'));
  });
});
