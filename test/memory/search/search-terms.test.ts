/** Terms that find memories and facts, in languages with and without spaces. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { systemClock } from '../../../src/core/time.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createSearch, searchRequestSchema } from '../../../src/memory/search/search.ts';
import { tokenizeForIndex, tokenizeForQuery } from '../../../src/memory/text/lexemes.ts';
import { describeDatabases } from '../../db/databases.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { createProject } from '../calls.ts';

const memories: Readonly<Record<string, readonly string[]>> = {
  'Übergrößen passen in der Straße': ['übergrößen', 'ÜBERGRÖSSEN', 'Ubergrossen', 'straße', 'STRASSE'],
  我喜欢喝绿茶: ['绿茶', '茶', '喜欢', '你喜欢什么？'],
  東京に住んでいます: ['東京', '住んで', 'どこに住んでいますか'],
  저는서울에서일합니다: ['서울', '서울에서'],
  คนไทยชอบกินข้าว: ['ข้าว', 'กิน'],
  'Likes tea/coffee in the morning': ['coffee', 'tea', 'coffee/tea'],
  'Keeps notes in src/memory/search/search.ts': ['search.ts', 'memory', 'src/memory/search/search.ts'],
  'İzmir is home': ['izmir', 'İZMİR', 'IZMIR'],
  'Writes to bob.smith@example.com': ['bob', 'smith', 'example.com', 'bob.smith@example.com'],
  'ＦＵＬＬ ｗｉｄｔｈ ﬁle': ['full', 'WIDTH', 'file'],
  'Version 3.5 of left_pad': ['3.5', 'pad', 'left-pad'],
  'Приве́т из Москвы, она живёт там': ['привет', 'МОСКВЫ', 'живет', 'живёт'],
  'Visits the café': ['cafe', 'CAFÉ', 'cafe\u0301'],
  ΟΔΟΣ: ['οδός', 'οδος'],
  'مُحَمَّد in Cairo': ['محمد'],
  'O’Brien, the lawyer': ["o'brien", 'brien'],
  'हिन्दी भाषा': ['हिन्दी', 'भाषा'],
};

describeDatabases('search terms', (database) => {
  test('of every language find their texts; query syntax and symbols find nothing and break nothing', async () => {
    const projectId = await createProject(database());
    const items = createItems({ database: database(), clock: systemClock });
    for (const text of Object.keys(memories)) {
      await items.write(
        projectId,
        { text, kind: 'fact', importance: 3, subject: null, pinned: false },
        { origin: 'agent', author: 'key:a' },
      );
    }
    const search = createSearch({ database: database() });
    const find = async (query: string): Promise<string[]> => {
      const options = { projectId, embed: async () => null, embedTimeoutMs: 30_000, queryTimeoutMs: 60_000 };
      const { memories: found } = await search(searchRequestSchema.parse({ query, include: ['memories'] }), options);
      return found.map(({ item }) => item.text);
    };
    for (const [text, queries] of Object.entries(memories)) {
      for (const query of queries) expect([query, await find(query)]).toEqual([query, expect.arrayContaining([text])]);
    }
    for (const query of ['&', '| ! ( ) : * <->', "a:* & b'", '\\', '%', "';--", '🍵', '鲸鱼', 'x'.repeat(2_000), '鲸'.repeat(2_000)]) {
      expect([query, await find(query)]).toEqual([query, []]);
    }
  });
});

test('scripts without spaces are indexed by letters and pairs and searched by pairs; a single letter stays', () => {
  expect(tokenizeForIndex('喝绿茶, ok')).toBe('喝 绿 茶 喝绿 绿茶 ok');
  expect(tokenizeForQuery('喝绿茶, ok')).toBe('喝绿 绿茶 ok');
  expect(tokenizeForQuery('茶')).toBe('茶');
});

test('ASCII text with typographic marks gives the tokens that the steps for other text give', () => {
  const characters = fc.string({ unit: fc.constantFrom(...'aBz09.,- \n\t/\'"_‘’“”–—…•\0\u007f'), maxLength: 30 });
  fc.assert(
    fc.property(characters, (text) => {
      // A mark that separates tokens, too, but is not among the typographic ones.
      expect(tokenizeForIndex(text)).toBe(tokenizeForIndex(`${text} ⁃`));
    }),
    { numRuns: isExhaustive ? 1_000_000 : 2_000 },
  );
  expect(tokenizeForIndex(' Tea/Coffee—“2.5” or 2…5, .5 V1.2! ')).toBe('tea coffee 2.5 or 2 5 5 v1.2');
});
