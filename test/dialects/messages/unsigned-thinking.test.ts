/**
 * Tests that models which check signatures don't get thinking without a signature, and that all other bytes stay
 * unchanged.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { scanObject, splice } from '../../../src/core/json/spans.ts';
import { messages } from '../../../src/dialects/messages/codec.ts';

function patch(text: string, model = 'claude-sonnet-4-5'): string {
  const body = Buffer.from(text);
  return splice(body, messages.patchForVendor(body, scanObject(body), model, false)).toString();
}

const start = '{"model":"claude-sonnet-4-5","max_tokens":5,"messages":';
const unsigned = '{"type":"thinking","thinking":"Hm","signature":""}';
const signed = '{"type":"thinking","thinking":"Hm","signature":"c2ln"}';
const text = '{"type":"text","text":"A"}';
const ask = '{"role":"user","content":"Hi"}';
const say = (...blocks: string[]): string => `{"role":"assistant","content":[${blocks.join(',')}]}`;
const list = (...all: string[]): string => `${start}[${all.join(',')}]}`;

describe('requests to a model that checks thinking signatures', () => {
  test.each([
    ['first', list(ask, say(unsigned, text), ask), list(ask, say(text), ask)],
    ['last', list(ask, say(text, unsigned), ask), list(ask, say(text), ask)],
    ['in the middle', list(ask, say(signed, unsigned, unsigned, text), ask), list(ask, say(signed, text), ask)],
    ['in several places', list(ask, say(unsigned, text, unsigned, text, unsigned)), list(ask, say(text, text))],
    ['alone in its message', list(ask, say(unsigned), ask), list(ask, ask)],
    ['alone in the last message', list(ask, say(unsigned, unsigned)), list(ask)],
    ['with white space', list(ask, say('{ "type" : "thinking", "thinking": "", "signature" : "" }', text)), list(ask, say(text))],
    ['without a signature', list(ask, say('{"thinking":"Hm","type":"thinking"}', text)), list(ask, say(text))],
    ['with null as its signature', list(ask, say('{"signature":null,"type":"thinking"}', text)), list(ask, say(text))],
  ])('removes an unsigned thinking block that is %s', (_place, body, sent) => {
    expect(patch(body)).toBe(sent);
  });

  test.each([
    ['signed thinking', list(ask, say(signed, text))],
    ['redacted thinking', list(ask, say('{"type":"redacted_thinking","data":"x"}', text))],
    ['the word in a text', list(`{"role":"user","content":"\\"type\\":\\"thinking\\",\\"signature\\":\\"\\""}`)],
    ['the word as another value', list('{"role":"user","content":[{"type":"text","text":"thinking"}]}')],
    ['a tool input of that form', list(ask, say('{"type":"tool_use","id":"t","name":"f","input":{"type":"thinking"}}'))],
    ['malformed messages', list('null', '7', '{"role":"assistant","content":[null,[],"thinking",{"type":7}]}')],
  ])('removing unsigned thinking leaves %s unchanged', (_what, body) => {
    expect(patch(body)).toBe(body);
  });

  test('removing unsigned thinking blocks leaves the rest of the JSON unchanged', () => {
    const block = fc.constantFrom(unsigned, signed, text, `\n ${unsigned} `, '{"n":1.0}');
    const message = fc.oneof(
      fc.constant(ask),
      fc.array(block, { maxLength: 4 }).map((blocks) => say(...blocks)),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), (all) => {
        const isUnsigned = (value: { signature?: string }): boolean => value.signature === '';
        const expected = JSON.parse(list(...all));
        expected.messages = expected.messages.flatMap((each: { content: unknown }) => {
          if (!Array.isArray(each.content) || !each.content.some(isUnsigned)) return [each];
          const content = each.content.filter((value) => !isUnsigned(value));
          return content.length === 0 ? [] : [{ ...each, content }];
        });
        expect(JSON.parse(patch(list(...all)))).toEqual(expected);
      }),
    );
  });
});

test("keeps unsigned thinking blocks for models that don't check signatures", () => {
  const body = list(ask, say(unsigned, text), ask);
  expect(patch(body, 'glm-5.1')).toBe(body.replace('claude-sonnet-4-5', 'glm-5.1'));
});
