/** Tests which statements count as supported by their evidence. */
import { describe, expect, test } from '@jest/globals';
import { parseExtraction } from '../../../src/memory/learning/extraction.ts';
import type { GroupMessage } from '../../../src/memory/learning/group-messages.ts';

/** A Friday */
const createdAt = new Date('2026-11-20T10:00:00Z');

/** Returns the messages of a conversation. Lines that start with `> ` are the assistant's. */
function say(...lines: readonly string[]): GroupMessage[] {
  return lines.map((line) => ({
    conversationId: 'c1',
    role: line.startsWith('> ') ? 'assistant' : 'user',
    text: line.replace(/^> /, ''),
    createdAt,
  }));
}

/** Returns why a statement is refused. Null if it isn't. A list can also have `said = offset` for a relative date. */
function judge(messages: readonly GroupMessage[], text: string, evidence: string, listed: readonly string[]): string | null {
  const dates = listed.flatMap((each) => (each.includes(' = ') ? [{ said: each.split(' = ')[0], offset: each.split(' = ')[1] }] : []));
  const [names, numbers] = [
    listed.filter((each) => /^\p{Lu}|^\p{Lo}{2,}$/u.test(each)),
    listed.filter((each) => /^\p{Ll}+$|^[三五]$/u.test(each)),
  ];
  const memories = [{ text, evidence, kind: 'fact', importance: 3, names, numbers, dates }];
  const { statements = [], refusals = [] } = parseExtraction(JSON.stringify({ memories }), messages) ?? {};
  expect(statements.length + refusals.length).toBe(1);
  return refusals[0] ?? null;
}

/** The columns are the statement, the lists from the model, the message (which is the evidence) and the refusal. */
type Case = readonly [text: string, listed: readonly string[], said: string, refusal: string | null];

const judgeCase = ([text, listed, said]: Case): string | null => judge(say(said), text, said, listed);

describe('the length of the evidence for a memory', () => {
  const messages = say(
    'The cat is called Momo.',
    '> Do you live in Oslo? Are you a vegetarian?',
    'Yes, the whole family.',
    'はい、猫が好きです。',
  );
  test.each([
    ['User is a vegetarian.', 'Yes', null],
    ['User is a vegetarian.', 'the', 'evidence'],
    ['The cat is called Momo.', 'The', 'evidence'],
    ['The cat is called Momo.', 'is', 'evidence'],
    ['ユーザーは猫が好き。', 'はい', 'evidence'],
    ['ユーザーは猫が好き。', '猫が好き', null],
  ])('checks the memory %j against the evidence %j: %s', (text, evidence, refusal) => {
    expect(judge(messages, text, evidence, [])).toBe(refusal);
  });

  test('stores the question along with a one-word answer as evidence', () => {
    const memories = [{ text: 'User is a vegetarian.', names: [], evidence: 'Yes', kind: 'fact', importance: 3 }];
    expect(parseExtraction(JSON.stringify({ memories }), messages)?.statements).toMatchObject([{ evidence: 'Are you a vegetarian? Yes' }]);
  });

  test("accepts the assistant's words as evidence only if the user has replied to them", () => {
    const guess = '> You are probably a vegetarian.';
    expect(judge(say(guess), 'User is a vegetarian.', 'probably a vegetarian', [])).toBe('evidence');
    expect(judge(say(guess, 'I am indeed.'), 'User is a vegetarian.', 'probably a vegetarian', [])).toBeNull();
  });
});

describe('names in learned memories', () => {
  const cases: readonly Case[] = [
    ['Bob likes tea.', ['Bob'], 'I like tea.', 'names'],
    ['User likes tea from Ceylon.', [], 'I like tea.', 'names'],
    ['User works at Acme Corp.', ['Acme Corp'], 'I work at a startup.', 'names'],
    ['User works at Acme Corp.', ['Acme Corp'], 'I work at acme.', 'names'],
    ['User works at Acme.', ['Acme'], 'I work at acme, in sales.', null],
    ["User's sister is called Annas.", ['Annas'], "That is Anna's book, my sister's.", null],
    ['User is called Mario.', ['Mario'], 'Call me Marie.', 'names'],
    ['Der Nutzer wohnt mit seiner Familie in Köln.', ['Köln'], 'Ich wohne mit der Familie in Köln.', null],
    ['Der Nutzer wohnt in Hamburg.', ['Hamburg'], 'Ich wohne in Köln.', 'names'],
    ['Пользователь живёт в Москве.', ['Москва', 'Москве'], 'Моя Москва! Я живу в центре, и живу хорошо.', null],
    ['المستخدم يعيش في أوسلو', ['أوسلو'], 'أنا أعيش في أوسلو منذ سنتين', null],
    ['المستخدم يعيش في برلين', ['برلين'], 'أنا أعيش في أوسلو منذ سنتين', 'names'],
    ['用户住在上海。', ['上海'], '我住在上海。', null],
    ['用户住在北京。', ['北京'], '我住在上海。', 'names'],
    ['ユーザーは田中さんと東京に住んでいる。', ['田中', '東京'], '東京に住んでいます。', 'names'],
  ];
  test.each(cases)('checks the names in the memory %s (listed: %j) against the message %j: %s', (...each) =>
    expect(judgeCase(each)).toBe(each[3]),
  );

  test("accepts a name in a memory if it's in a nearby message of the same conversation", () => {
    const near = say('My sister Ana called.', '> How is she?', 'She lives in Porto now.');
    expect(judge(near, "Ana, the user's sister, lives in Porto.", 'She lives in Porto now.', ['Ana', 'Porto'])).toBeNull();
    const offered = say('> There are the Astoria and the Lutetia.', 'I book the first hotel, the Astoria is fine.');
    expect(judge(offered, 'User books the hotel Astoria.', 'I book the first hotel', ['Astoria'])).toBeNull();
    const earlier = say('> Ana said so.', 'Fine.', 'She lives in Porto now.');
    expect(judge(earlier, 'Ana lives in Porto.', 'She lives in Porto now.', ['Ana', 'Porto'])).toBe('names');
    const elsewhere = [{ ...say('My sister Ana called.')[0], conversationId: 'c2' } as GroupMessage, ...say('She lives in Porto now.')];
    expect(judge(elsewhere, 'Ana lives in Porto.', 'She lives in Porto now.', ['Ana', 'Porto'])).toBe('names');
  });

  test('requires the memory model to list names, because some scripts have no capital letters', () => {
    const memories = [{ text: 'I like tea.', evidence: 'I like tea.', kind: 'fact', importance: 3 }];
    expect(parseExtraction(JSON.stringify({ memories }), say('I like tea.'))?.refusals).toEqual(['form']);
  });
});

describe('numbers and dates in learned memories', () => {
  const cases: readonly Case[] = [
    ['User runs 12 km a day.', [], 'I run 10 km a day.', 'numbers'],
    ['User runs ten km a day.', ['ten'], 'I run ten km a day.', null],
    ['User has three cats.', ['three'], 'I have two cats.', 'numbers'],
    ['User has seventy cats.', ['seventy'], 'I have seven cats.', 'numbers'],
    ['L’utilisateur a trois chats.', ['trois'], 'J’ai trois chats.', null],
    ['User earns 1500 euros.', [], 'I earn 1,500 euros.', null],
    ['User earns 1.500 euros.', [], 'I earn 1 500 euros.', null],
    ['User earns 2500 euros.', [], 'I earn 1,500 euros.', 'numbers'],
    ['User earns 85k euros.', [], 'I earn 85k euros.', null],
    ['User earns 58k euros.', [], 'I earn 85k euros.', 'numbers'],
    ['User sold 1.5 million copies.', [], 'I sold 1.5 million copies.', null],
    ['User sold 2.5 million copies.', [], 'I sold 1.5 million copies.', 'numbers'],
    ['用户每年赚85万元。', [], '我每年赚８５万元。', null],
    ['المستخدم لديه 3 قطط', [], 'لدي ٣ قطط', null],
    ['المستخدم لديه 5 قطط', [], 'لدي ٣ قطط', 'numbers'],
    ['用户有三只猫。', ['三'], '我有三只猫。', null],
    ['用户有五只猫。', ['五'], '我有三只猫。', 'numbers'],
    ['The shop opens at 8:30, closed on 24 December.', [], 'We open at 8.30, but not on 24 December.', null],
    ['User flies on 2026-11-27.', ['next Friday = P7D'], 'I fly next Friday.', null],
    ['User flies on 2026-11-28.', ['next Friday = P7D'], 'I fly next Friday.', 'numbers'],
    ['User flies on 2026-11-27.', ['next Saturday = P7D'], 'I fly next Friday.', 'numbers'],
    ['User flies on 2026-11-27.', [], 'I fly next Friday.', 'numbers'],
    ['User flies on 2026-11-27.', ['next Friday = 7 days'], 'I fly next Friday.', 'numbers'],
    ['User flew on 2026-11-19.', ['yesterday = -P1D'], 'I flew yesterday.', null],
    ['User flies on 2026-12-11.', ['in three weeks = P3W'], 'I fly in three weeks.', null],
    ['User flies on 2027-01-20.', ['in three weeks = P3W'], 'I fly in three weeks.', 'numbers'],
    ['User flies in 2026-12.', ['next month = P1M'], 'I fly next month.', null],
    ['User flies on 2026-12-20.', ['next month = P1M'], 'I fly next month.', 'numbers'],
    ['User flies on 2026-12-03.', ['on the 3rd = P13D'], 'I fly on the 3rd.', null],
    ['User moved to Oslo in 2023.', ['Oslo', 'three years ago = -P3Y'], 'I moved to Oslo three years ago.', null],
    ['User moved to Oslo in 2019.', ['Oslo', 'three years ago = -P3Y'], 'I moved to Oslo three years ago.', 'numbers'],
    ['User was born on 3 May 1990.', [], 'I was born on 3 May 1990.', null],
    ['User was born on 1990-05-03.', [], 'I was born on 3 May 1990.', null],
    ['User was born on 1990-05-13.', [], 'I was born on 3 May 1990.', 'numbers'],
    ['Der Nutzer fliegt am 27.11.2026.', ['kommenden Freitag = P7D'], 'Ich fliege am kommenden Freitag.', null],
    ['ユーザーは2026年11月27日に出発する。', ['来週の金曜日 = P1W'], '来週の金曜日に出発します。', null],
    ['المستخدم يسافر في 2026-11-27', ['يوم الجمعة القادم = P7D'], 'سوف أسافر يوم الجمعة القادم', null],
    ['User attended a parade on 2023-05-07.', ['yesterday = -P1D'], '[2023-05-08] Caroline: I attended a parade yesterday.', null],
  ];
  test.each(cases)('checks the numbers and dates in the memory %s (listed: %j) against the message %j: %s', (...each) =>
    expect(judgeCase(each)).toBe(each[3]),
  );
});

describe('the content of learned memories', () => {
  const cases: readonly Case[] = [
    ['User prefers tea.', [], 'Tea, never coffee!', null],
    ['User drinks tea rather than coffee.', [], 'Tea, never coffee!', null],
    ['User is married and works as a dentist.', [], 'Tea, never coffee!', 'content'],
    ['User likes tea, sailing, chess, opera and mountain climbing.', [], 'Tea, never coffee!', 'content'],
    ['User has studied medicine.', [], 'I am studying medicine.', null],
    ['Der Nutzer reist am liebsten mit dem Zug.', [], 'Ich fahre am liebsten Zug.', null],
    ['L’utilisateur est allergique aux arachides.', [], 'J’ai une allergie aux arachides.', null],
    ['ユーザーは毎朝コーヒーを飲む。', [], '私は毎朝コーヒーを飲みます。', null],
    ['Der Nutzer ist laktoseintolerant.', [], 'Ich vertrage keine Laktose.', null],
    ['ユーザーは肉より魚を好む。', [], '肉はあまり食べません。魚が好きです。', null],
    ['ユーザーは山登りと音楽を楽しむ。', [], '肉はあまり食べません。魚が好きです。', 'content'],
    ['用户喜欢喝茶。', [], '我很喜欢茶。', null],
    ['المستخدم يحب القهوة', [], 'أحب قهوة الصباح', null],
  ];
  test.each(cases)('checks the content of the memory %s (listed: %j) against the message %j: %s', (...each) =>
    expect(judgeCase(each)).toBe(each[3]),
  );

  test('resolves a relative date against a limited number of dates in a message', () => {
    const dates = Array.from({ length: 2_000 }, (_, day) => new Date(day * 86_400_000).toISOString().slice(0, 10));
    const said = say(`I drink tea since eight years after: ${dates.join(' ')}`);
    const claim = (text: string) => judge(said, text, 'I drink tea since', ['eight years after = P8Y']);
    expect(claim('User drinks tea since 2034.')).toBeNull();
    expect(claim('User drinks tea since 1978.')).toBeNull();
    // Eight years after one of the last dates.
    expect(claim('User drinks tea since 1983.')).toBe('numbers');
  });

  test('rejects a memory if its content is only near the evidence', () => {
    const messages = say('I live in Oslo and drink tea.', 'What is the weather like?');
    expect(judge(messages, 'User lives in Oslo.', 'What is the weather like?', ['Oslo'])).toBe('content');
  });
});
