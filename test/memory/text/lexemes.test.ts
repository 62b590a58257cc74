import { expect, test } from '@jest/globals';
import { hasPlainTokens, lexemeSetSql, lexemesSql, tokenizeForIndex } from '../../../src/memory/text/lexemes.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createRandom } from '../../support/random.ts';

const texts = [
  'The teas were steeping, and the kettles boiled; boiling kettles!',
  'const port = 8080; // listen on port 8080, not 80',
  'commit 389e8j0fd of 2e742881v took 1.5 seconds, 12abc x1 1e5',
  'Der Tee schmeckte, 我喜欢乌龙茶, naïve Σίσυφος',
  // Normalization turns each of these characters into three letters, which gives a word of 3,000 letters.
  '㍱'.repeat(1_000),
  ...[2_000, 2_046, 2_047].flatMap((length) => [`${'x'.repeat(length)} of ${length}`, `${length}: ${'x'.repeat(length)}`]),
  '',
];

describeDatabases('the lexemes of conversations', (database) => {
  test('indexes conversations with the same lexemes as memories, apart from the weights', async () => {
    const random = createRandom(7);
    const letters = 'abcdefghijklmnopqrstuvwxyz0123456789eeee0123456789';
    const words = Array.from({ length: 200 }, () =>
      Array.from({ length: random.between(1, 9) }, () => letters[random.below(letters.length)]).join(''),
    );
    const tokens = [...texts, ...words, words.join(' ')].map(tokenizeForIndex);
    const rows = await database().query<{ same: boolean }>(
      `select ${lexemeSetSql('tokens', 'is_plain')} = strip(${lexemesSql('tokens')}) as same
         from unnest($1::text[], $2::boolean[]) as sent (tokens, is_plain)`,
      [tokens, tokens.map(hasPlainTokens)],
    );
    expect(rows.filter(({ same }) => !same)).toEqual([]);
    expect(tokens.filter(hasPlainTokens).length).toBeGreaterThan(100);
  });
});
