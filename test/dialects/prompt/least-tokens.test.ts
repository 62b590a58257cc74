import { describe, expect, test } from '@jest/globals';
import { countLeastTokens, leastBytesPerToken } from '../../../src/dialects/prompt/least-tokens.ts';

const count = (body: unknown): number => countLeastTokens(Buffer.from(JSON.stringify(body)), Number.POSITIVE_INFINITY);
const says = (content: unknown) => ({ messages: [{ role: 'user', content }] });

describe("the lower bound for a prompt's tokens", () => {
  /** Token counts of o200k_base. Of OpenAI's tokenizers, this one produces the fewest tokens. */
  test.each<[string, string, number, number]>([
    ['English', "It isn't the length of a prompt that matters most; it's what the model was asked to do with it.", 20, 22],
    ['code', 'for (const [row, character] of [...left].entries()) { const current = [row + 1]; }', 11, 25],
    ['numbers', '12345678901234567890 3.14159 2026-11-22', 7, 19],
    ['Chinese', '人工智能是计算机科学的一个分支，它企图了解智能的实质。', 13, 19],
    ['Japanese', '今日は天気がとても良いので、友達と公園へ散歩に行きました。', 14, 23],
    ['Korean', '오늘은 날씨가 좋아서 친구와 함께 공원에 갔습니다.', 10, 17],
    ['Russian', 'Сегодня хорошая погода, и мы пошли гулять в парк.', 9, 15],
    ['Hindi', 'आज मौसम बहुत अच्छा है और हम पार्क में गए।', 8, 11],
    ['one repeated letter', 'x'.repeat(1_600), 100, 200],
    ['dots', '.'.repeat(5_000), 0, 79],
  ])('estimates no more tokens than the vendor counts for %s', (_what, text, least, tokens) => {
    expect(count(says(text))).toBe(least);
    expect(least).toBeLessThanOrEqual(tokens);
  });

  test('never estimates more tokens than the size of the body allows', () => {
    const body = says('a '.repeat(1_000));
    expect(count(body)).toBe(1_000);
    expect(count(body)).toBeLessThanOrEqual(JSON.stringify(body).length / leastBytesPerToken);
  });
});

describe('counting the lower bound', () => {
  const text = 'one two three';
  test.each<[string, unknown]>([
    ['a text', says(text)],
    ['a text part', says([{ type: 'text', text }])],
    ['a tool result', says([{ type: 'tool_result', tool_use_id: 'x', content: text }])],
    ['the arguments of a tool call', { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: text } }] }] }],
    ['a system prompt in messages', { system: text, messages: [] }],
    ['the input of responses', { instructions: 'one', input: 'two three' }],
    ['an input item of responses', { input: [{ role: 'user', content: [{ type: 'input_text', text }] }] }],
    ['the output of a function', { input: [{ type: 'function_call_output', call_id: 'x', output: text }] }],
  ])('the lower bound counts the tokens of %s', (_what, body) => {
    expect(count(body)).toBe(3);
  });

  const blob = 'QUJD'.repeat(10_000);
  test.each<[string, unknown]>([
    ['an image', says([{ type: 'image_url', image_url: { url: `data:image/png;base64,${blob}` } }])],
    ['an image in messages', says([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: blob } }])],
    ['a file', says([{ type: 'file', file: { filename: 'a.pdf', file_data: blob } }])],
    ['audio', says([{ type: 'input_audio', input_audio: { data: blob, format: 'wav' } }])],
    ['thinking', { messages: [{ role: 'assistant', content: [{ type: 'thinking', thinking: 'one two', signature: blob }] }] }],
    ['tools', { tools: [{ type: 'function', function: { name: 'f', description: 'one two three', parameters: {} } }] }],
    ['a key within a text', { metadata: { note: '{"text": "one two three"}' } }],
  ])('the lower bound ignores %s', (_what, body) => {
    expect(count(body)).toBe(0);
  });

  test('counts escaped characters in JSON like literal characters', () => {
    const texts = ['Привет, как дела?\n\t"quoted"', '今日は天気', 'café', '😀'];
    for (const written of texts) {
      const escaped = JSON.stringify(says(written)).replace(
        /[\u0080-\uffff]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
      );
      expect([written, countLeastTokens(Buffer.from(escaped), 1_000)]).toEqual([written, count(says(written))]);
    }
  });

  test.each(['truncation', 'context_management', 'transforms', 'truncate_prompt_tokens'])(
    'estimates zero tokens if the vendor may shorten the prompt: %s',
    (key) => {
      expect(count({ ...says('one two three'), [key]: 'auto' })).toBe(0);
    },
  );

  test('stops counting tokens once the limit is exceeded', () => {
    const messages = Array.from({ length: 1_000 }, () => ({ role: 'user', content: 'one two three' }));
    expect(countLeastTokens(Buffer.from(JSON.stringify({ messages })), 10)).toBe(12);
  });
});
