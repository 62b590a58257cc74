/**
 * Tests which terms find memories, in languages with and without spaces, and how memories that match the same terms are
 * ranked.
 */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { systemClock } from '../../../src/core/time.ts';
import type { Database } from '../../../src/db/database.ts';
import { createItems } from '../../../src/memory/items/items.ts';
import { createSearch, searchRequestSchema } from '../../../src/memory/search/search.ts';
import { tokenizeForIndex, tokenizeForQuery } from '../../../src/memory/text/lexemes.ts';
import { toVectorParameter } from '../../../src/memory/text/vectors.ts';
import { describeDatabases } from '../../db/databases.ts';
import { isExhaustive } from '../../support/exhaustive.ts';
import { createProject, listConversationIds, record, settledCall } from '../calls.ts';

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
  'Ада работала в библиотеке и читала книги': ['Где работает Ада?', 'библиотека'],
  'Die Bäckerin wohnte früher in Köln': ['Wo wohnt die Bäckerin?', 'bäckerinnen'],
  'Şimdi İstanbul’da yaşıyor ve kitapları okuyor': ['kitaplardan', 'istanbulda'],
  'انتقلت آدا إلى المدينة': ['مدينة', 'والمدينة'],
  'עדה גרה בירושלים': ['ירושלים', 'לירושלים'],
};

describeDatabases('search terms', (database) => {
  test('finds texts in every language and ignores query syntax', async () => {
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

describeDatabases('searching memories and conversations', (database) => {
  test('searches memories and conversations at the same time', async () => {
    const projectId = await createProject(database());
    await record(database(), [settledCall({ projectId, body: { messages: [{ role: 'user', content: 'green tea' }] }, answer: 'yes' })]);
    await createItems({ database: database(), clock: systemClock }).write(
      projectId,
      { text: 'Likes tea', kind: 'fact', importance: 3, subject: null, pinned: false },
      { origin: 'agent', author: 'key:a' },
    );
    let running = 0;
    let most = 0;
    const counting: Database = {
      ...database(),
      async transaction(work, settings) {
        running += 1;
        most = Math.max(most, running);
        return database()
          .transaction(work, settings)
          .finally(() => (running -= 1));
      },
    };
    const vector = { model: 'm', values: [1, 0] };
    const options = { projectId, embed: async () => vector, embedTimeoutMs: 30_000, queryTimeoutMs: 60_000 };
    const search = createSearch({ database: counting });
    const { memories: found, episodes } = await search(searchRequestSchema.parse({ query: 'tea' }), options);
    expect([most, found.map(({ item }) => item.text), episodes.length]).toEqual([2, ['Likes tea'], 1]);
  });
});

describeDatabases('ranking of memories with the same terms', (database) => {
  /**
   * Returns text in the order of a search. `at` is when a memory was written, and `conversation` is where it was
   * learned.
   */
  async function rank(
    query: string,
    stored: readonly { readonly text: string; readonly at?: string; readonly conversation?: number }[],
    vectors: Readonly<Record<string, readonly number[]>> = {},
  ): Promise<string[]> {
    const projectId = await createProject(database());
    const items = createItems({ database: database(), clock: systemClock });
    const conversations = new Map<number, string>();
    for (const { text, at, conversation } of stored) {
      const { id } = await items.write(
        projectId,
        { text, kind: 'fact', importance: 3, subject: null, pinned: false },
        { origin: 'agent', author: 'key:a' },
      );
      if (conversation !== undefined && !conversations.has(conversation)) {
        const call = settledCall({ projectId, body: { messages: [{ role: 'user', content: `zz${conversation}` }] }, answer: 'zz' });
        await record(database(), [call]);
        const [newest] = (await listConversationIds(database(), [call])).filter((known) => known !== null);
        conversations.set(conversation, newest ?? '');
      }
      await database().query(
        `update memory_items set created_at = coalesce($2::timestamptz, created_at), conversation_id = $3::uuid where id = $1::uuid`,
        [id, at ?? null, conversation === undefined ? null : conversations.get(conversation)],
      );
      if (vectors[text])
        await database().query(
          `update memory_passages set embedding = $2::halfvec, embedding_dims = 2, embedding_model = 'm' where item_id = $1::uuid`,
          [id, toVectorParameter(vectors[text])],
        );
    }
    const vector = vectors[query] ? { model: 'm', values: vectors[query] } : null;
    const options = { projectId, embed: async () => vector, embedTimeoutMs: 30_000, queryTimeoutMs: 60_000 };
    const { memories: found } = await createSearch({ database: database() })(
      searchRequestSchema.parse({ query, include: ['memories'] }),
      options,
    );
    for (const { score } of found) expect(score > 0 && score <= 1).toBe(true);
    return found.map(({ item }) => item.text);
  }

  test('ranks memories from the time named in the query first', async () => {
    const stored = [
      { text: 'Ann went camping in the woods', at: '2023-05-02' },
      { text: 'Ann went camping at the lake', at: '2023-06-30' },
      { text: 'Ann went camping by the sea', at: '2023-09-01' },
    ];
    expect((await rank('Where did Ann go camping in June 2023?', stored))[0]).toBe('Ann went camping at the lake');
    expect((await rank('Where did Ann go camping on 28 April 2023?', stored))[0]).toBe('Ann went camping in the woods');
  });

  test('ranks memories higher if they come from the same conversation as another match', async () => {
    const stored = [
      { text: 'Ann bought a red bicycle', conversation: 1 },
      { text: 'The bicycle of Ann was stolen in Oslo', conversation: 1 },
      { text: 'Ann sold a red bicycle', conversation: 2 },
    ];
    expect((await rank('Who stole the red bicycle of Ann in Oslo?', stored)).slice(0, 2)).toEqual([
      'The bicycle of Ann was stolen in Oslo',
      'Ann bought a red bicycle',
    ]);
  });

  test('ranks short memories and rare terms higher', async () => {
    const long = `Ann likes tea.${' Bob reports on other things at length.'.repeat(40)}`;
    expect(await rank('tea', [{ text: 'Ann likes tea' }, { text: long }])).toEqual(['Ann likes tea', long]);
    const stored = ['Ann drinks rum', 'Bob eats ice', 'Cid sells ice', 'Dan makes ice'].map((text) => ({ text }));
    expect((await rank('rum and ice', stored))[0]).toBe('Ann drinks rum');
  });

  test('ranks memories by the similarity of their vectors', async () => {
    const vectors = { query: [0.8, 0.6], near: [0.6, 0.8], opposite: [-1, 0], unrelated: [0, -1] };
    const stored = ['unrelated', 'opposite', 'near'].map((text) => ({ text }));
    expect((await rank('query', stored, vectors))[0]).toBe('near');
    expect(await rank('query', [{ text: 'near' }], vectors)).toEqual(['near']);
  });
});

test('indexes text without spaces by single characters and character pairs', () => {
  expect(tokenizeForIndex('喝绿茶, ok')).toBe('喝 绿 茶 喝绿 绿茶 ok');
  expect(tokenizeForQuery('喝绿茶, ok')).toBe('绿茶\nok');
  expect(tokenizeForQuery('คนไทยชอบกินข้าว')).toBe('คน\nไท ทย\nชอ อบ\nกิน\nข้า าว');
  expect(tokenizeForQuery('茶')).toBe('茶');
});

test('also indexes word prefixes in languages other than English', () => {
  expect(tokenizeForIndex('Книгами 12345')).toBe('книгами 12345 книга0');
  expect(tokenizeForIndex('Painted the “garden” 🌱')).toBe('painted the garden');
  expect(tokenizeForQuery('Книгами and garden')).toBe('книгами\tкнига0\nand\ngarden\tgarde0');
  expect(tokenizeForQuery('والكتاب')).toBe('والكتاب\tوالكت0 | الكتا0 | لكتاب0');
});

test('tokenizes text with typographic quotes and dashes like other text', () => {
  const characters = fc.string({ unit: fc.constantFrom(...'aBz09.,- \n\t/\'"_‘’“”–—…•\0\u007f'), maxLength: 30 });
  fc.assert(
    fc.property(characters, (text) => {
      // This mark separates tokens too, but it isn't one of the typographic ones.
      expect(tokenizeForIndex(text)).toBe(tokenizeForIndex(`${text} ⁃`));
    }),
    { numRuns: isExhaustive ? 1_000_000 : 500 },
  );
  expect(tokenizeForIndex(' Tea/Coffee—“2.5” or 2…5, .5 V1.2! ')).toBe('tea coffee 2.5 or 2 5 5 v1.2');
});
