import { describe, expect, test } from '@jest/globals';
import { joinRequestTexts, readRequestText, removeEchoes } from '../../src/guardrails/echoed-text.ts';

const bodyOf = (content: string, more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ model: 'gpt-4o', temperature: 0.2, messages: [{ role: 'user', content }], ...more }));

/** Removes a prompt from a vendor's error message. */
function removeFrom(message: string, content: string, more: object = {}): string {
  return removeEchoes(message, readRequestText(bodyOf(content, more)) ?? '');
}

const prompt = 'My name is Zora and\nI live at "Elm Street" 12. Código: größe';

describe('request text that a vendor quotes in its error message', () => {
  test.each([
    ['in quotes', `Invalid value: '${prompt}'. Try again.`, "Invalid value: '[…]'. Try again."],
    ['of a part in quotes', "Invalid value: 'Zora'", "Invalid value: '[…]'"],
    ['in typographic quotes', 'The value “Elm Street” is wrong', 'The value “[…]” is wrong'],
    ['without quotes', 'Could not parse My name is Zora and I live at once', 'Could not parse […] once'],
    ['after a colon', 'Invalid value: Zora', 'Invalid value: […]'],
    ['in parentheses', 'The value (Zora) is wrong', 'The value ([…]) is wrong'],
    ['with Python escapes', "input_value='My name is Zora and\\nI...ro\\u00df', input_type=str", "input_value='[…]', input_type=str"],
    ['even if the vendor cut it off', 'bad input: "My name is Zora and I live', 'bad input: "[…]'],
    ['as JSON', '{"messages": [{"role": "user", "content": "Zora"}]}', '{"messages": [{"role": "user", "content": "[…]"}]}'],
  ])('removes quoted request text %s', (_, message, expected) => {
    expect(removeFrom(message, prompt)).toBe(expected);
  });

  test('removes a quoted prompt from errors even if the request body escapes non-ASCII characters', () => {
    const body = Buffer.from('{"messages":[{"role":"user","content":"Gr\\u00f6\\u00dfe 46 \\ud83d\\ude00"}]}');
    expect(removeEchoes("Invalid value: 'Größe 46 😀'", readRequestText(body) ?? '')).toBe("Invalid value: '[…]'");
  });

  test('removes quoted tool call arguments from vendor errors', () => {
    const tool_calls = [{ function: { name: 'save', arguments: JSON.stringify({ note: 'the "red" house\nof Zora' }) } }];
    expect(removeFrom('Bad arguments the "red" house of Zora here', 'x', { tool_calls })).not.toMatch(/red|Zora/);
  });

  test("removes quoted prompts from a vendor's errors even if the request has images", () => {
    const image_url = { url: `data:image/png;base64,${'iVBORw0KGgo'.repeat(2_000)}` };
    expect(removeFrom("Invalid value: 'Zora' and data:image/png;base64,iVBORw0KGgo", prompt, { image_url })).toMatch(
      /^Invalid value: '\[…\]' and /,
    );
  });

  test('removes a long quote from errors even if the vendor has reworded it', () => {
    expect(removeFrom(`Invalid value: '${'reworded '.repeat(8)}'`, prompt)).toBe("Invalid value: '[…]'");
    expect(removeFrom(`Invalid image ${'iVBORw0KGgo'.repeat(20)} sent`, prompt)).toBe('Invalid image […] sent');
  });
});

describe("the vendor's own text", () => {
  test.each([
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
    'The model `gpt-4o` does not exist or you do not have access to it.',
    "Invalid value: 'tool'. Supported values are: 'system', 'assistant', 'user', and 'function'.",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    'Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 1500.',
    'messages.0.content: Input should be a valid list',
    "You didn't provide an API key, and it isn't optional.",
  ])("keeps the vendor's own error text: %s", (message) => {
    expect(removeFrom(message, prompt)).toBe(message);
  });
});

test("doesn't search very long requests for text that a vendor error quotes", () => {
  expect(readRequestText(bodyOf('word '.repeat(60_000)))).toBeNull();
  expect(readRequestText(bodyOf('x'.repeat(4_000_000)))).not.toBeNull();
});

test('stops reading a request as soon as it is too long to compare', () => {
  const strings = 1_000_000;
  const body = Buffer.from(`[${'"a b",'.repeat(strings)}""]`);
  let searches = 0;
  body.indexOf = (...search) => {
    searches += 1;
    return Buffer.prototype.indexOf.apply(body, search);
  };
  expect(readRequestText(body)).toBeNull();
  expect(searches).toBeLessThan(strings / 10);
  expect(joinRequestTexts(['a'.repeat(300_000)])).toBeNull();
  expect(joinRequestTexts(['a', 'b  c'])).toBe('a b c');
});
