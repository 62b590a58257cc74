/**
 * Makes phrases in Russian letters, with German umlauts, and in Chinese characters without spaces. The words are made
 * up, as in the English phrases, and their frequencies follow Zipf's law.
 */
import { tokenizeForIndex } from '../../src/memory/text/lexemes.ts';
import { createRandom } from '../search-benchmark/texts.js';

const wordsPerPhrase = 7;
const vocabulary = 20_000;
const languages = [
  { syllables: 'ка ло ми не ру са те ви зо бе ду фи'.split(' '), separator: ' ' },
  { syllables: 'kä lo mü ne rö sa te vi zö be du fi'.split(' '), separator: ' ' },
  { syllables: [...'我喜欢茶山水人书红天大来'], separator: '' },
];

/** @param {number} rank @param {readonly string[]} syllables */
function toWord(rank, syllables) {
  let word = '';
  for (let rest = rank + syllables.length; rest > 0; rest = Math.floor(rest / syllables.length)) word += syllables[rest % syllables.length];
  return word;
}

/** Returns a function that makes a different phrase each time, together with its tokens. */
export function createForeignPhrases(seed = 1) {
  const random = createRandom(seed);
  let made = 0;
  return () => {
    const { syllables, separator } = languages[made++ % languages.length] ?? { syllables: [], separator: '' };
    const words = Array.from({ length: wordsPerPhrase }, () => toWord(Math.floor(vocabulary ** random()), syllables));
    const text = words.join(separator);
    return { text, tokens: tokenizeForIndex(text) };
  };
}
