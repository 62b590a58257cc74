import { expect, test } from '@jest/globals';
import { type PackableExtra, packExtras, unpackExtras } from '../../../src/memory/conversations/packed-extras.ts';
import { createRandom } from './sessions.ts';

const letters = ['a', 'ü', '茶', '😀', '\n', '\r\n', '"', '\\', '[', ' ', '\u2028', '{"a":1}\n'];

test('packs and unpacks random tool results and thinking without changing them', () => {
  const random = createRandom(1);
  const textOf = (length: number) => Array.from({ length }, () => letters[random(letters.length)]).join('');
  for (let round = 0; round < 300; round += 1) {
    const extras = Array.from({ length: 1 + random(6) }, (_, position): PackableExtra => {
      const text = textOf(random(2) * random(300)).repeat(1 + random(2) * random(40));
      return { role: random(2) === 0 ? 'tool_result' : 'thinking', details: { type: textOf(random(9)) }, position, text };
    });
    const expected = extras.map(({ role, details, position, text }) => ({ kind: role, type: details.type, position, text }));
    expect(unpackExtras(Buffer.from(packExtras(extras).content, 'hex'))).toEqual(expected);
  }
});
