import { expect, test } from '@jest/globals';
import { countCharacters } from '../../../src/dialects/media/image-speech.ts';

test.each([
  ['"ab"', 2],
  ['"🦊ab"', 3],
  ['"\\ud83e\\udd8a"', 1],
  ['7', 0],
])('counts the code points of %s as %d characters', (input, count) => {
  expect(countCharacters({ input })).toBe(count);
});
