/**
 * Generates the queries of `benchmark-recall` from words and memories in the seeded database. The random seed is fixed,
 * because we want to compare versions with the same queries.
 */
import { createRandom } from '../search-benchmark/texts.js';
import { largeSubject } from './shape.js';

/** @typedef {{ kind: string, text: string }} Query */
/** @typedef {{ name: string, subject: string | null }} Scope */

/** @param {import('pg').Client} client @param {string} projectId */
export async function createQueries(client, projectId) {
  const random = createRandom(7);
  const { rows: frequent } = await client.query(
    `select word from memory_words where project_id = $1 and word ~ '^[a-z]{4,}$' order by passages desc, word limit 40`,
    [projectId],
  );
  const { rows: items } = await client.query(
    `select text from memory_items where project_id = $1 and state = 'live' order by id limit 4000`,
    [projectId],
  );
  const pick = (/** @type {readonly string[]} */ list) => list[Math.floor(random() * list.length)] ?? '';
  const common = frequent.map(({ word }) => String(word));
  const texts = items.map(({ text }) => String(text));
  const english = texts.filter((text) => /^[\x20-\x7e]+$/.test(text));
  const foreign = texts.filter((text) => /[^\x20-\x7e]/.test(text));
  const numbered = texts.filter((text) => /\d{7}$/.test(text));
  const several = (/** @type {number} */ count, /** @type {() => string} */ next) => Array.from({ length: count }, next).join(' ');
  const someWords = (/** @type {string} */ text, /** @type {number} */ count) => several(count, () => pick(text.split(' ')));
  const rare = () =>
    pick(
      pick(english)
        .split(' ')
        .filter((word) => word.length >= 8),
    ) || 'kalominezo';
  /** @type {readonly { kind: string, next: () => string }[]} */
  const kinds = [
    { kind: 'common words', next: () => `What do I know about ${several(3, () => pick(common))}?` },
    { kind: 'rare words', next: () => several(3, rare) },
    { kind: 'words of a memory', next: () => someWords(pick(english), 6) },
    { kind: 'long message', next: () => `${several(4, () => `${pick(english)}.`)} Which of these did I mention to ${rare()}?` },
    { kind: 'other languages', next: () => someWords(pick(foreign), 5) },
    { kind: 'number', next: () => `Where is the order ${/\d{7}$/.exec(pick(numbered))?.[0] ?? '1'}?` },
    {
      kind: 'unknown words',
      next: () => `Did Xaverl${Math.floor(random() * 1e6)} ever call the plumbr${Math.floor(random() * 1e6)} last week?`,
    },
    { kind: 'one common word', next: () => pick(common) },
  ];
  let made = 0;
  return {
    /** @returns {Query} */
    next() {
      const { kind, next } = kinds[made++ % kinds.length] ?? kinds[0] ?? { kind: '', next: () => '' };
      return { kind, text: next().slice(0, 1_000) };
    },
  };
}

/** @param {import('pg').Client} client @param {string} projectId @returns {Promise<{ name: string, next: () => string | null }[]>} */
export async function listScopes(client, projectId) {
  const { rows } = await client.query(
    `select subject from memory_items where project_id = $1 and subject is not null and subject <> $2 group by subject order by subject limit 400`,
    [projectId, largeSubject],
  );
  const subjects = rows.map(({ subject }) => String(subject));
  let used = 0;
  return [
    { name: 'whole project', next: () => null },
    { name: 'subject', next: () => subjects[used++ % subjects.length] ?? null },
    { name: 'subject with 5,000 memories', next: () => largeSubject },
    { name: 'unknown subject', next: () => `nobody-${used++}` },
  ];
}
