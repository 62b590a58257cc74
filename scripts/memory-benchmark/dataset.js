/**
 * Loads the data sets of `npm run benchmark-memory` from files, or downloads them into the cache directory. They aren't
 * part of the repository. Revisions and hashes are pinned, so that everybody asks the same questions.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheDirectory } from '../cache.js';
import { BootstrapError } from '../npm.js';
import { parseBeam } from './beam.js';
import { parseLocomo } from './locomo.js';
import { languages, parseXquad } from './xquad.js';

/**
 * @typedef {object} Memory
 * @property {string} id id in the data set, for error messages
 * @property {string} text
 * @property {string} conversation
 * @property {number} session number of the session in the conversation, starting at 1
 * @property {string} date date of the session (ISO 8601), or empty if it's unknown
 * @property {string} speaker
 * @property {string[]} sources the messages that it contains or was made from
 */

/**
 * @typedef {{ text: string, kind: string, sources: string[], answer: string }} Question a memory answers the question if
 * they have a source in common
 */

/**
 * @typedef {object} Conversation each conversation is searched separately
 * @property {string} id
 * @property {'tuned' | 'held-out' | null} half null if nothing is tuned on this data set
 * @property {Memory[]} memories no two have the same text
 * @property {Question[]} questions
 */

const locomo = {
  url: 'https://raw.githubusercontent.com/snap-research/locomo/3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/data/locomo10.json',
  sha256: '79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4',
};
const beam = {
  url: 'https://raw.githubusercontent.com/mohammadtavakoli78/BEAM/b2a3ee8ba12d68f83143dda191097dc3e028ddd3/chats/100K',
  /**
   * A hash that covers all files. It's the SHA-256 of a text that has the SHA-256 of each file on its own line, in the
   * order of `beamFiles`.
   */
  sha256: '9e7ec29263f1a9bb0df16c370bcfe2099144f1083470a26440f64f3f864d8a01',
  conversations: 20,
  /**
   * These conversations also exist in a shorter version, `chat_trunecated.json`, and their questions are about that
   * one.
   */
  cut: [5, 7, 10, 11, 12, 16, 17, 18, 19, 20],
};
const xquad = {
  url: 'https://raw.githubusercontent.com/google-deepmind/xquad/7d30520c717524000f0d9d2f9c10a069acd9d285',
  /**
   * The hash of all XQuAD files. It's calculated like the one of BEAM, with the files in the order of `xquadLanguages`.
   */
  sha256: 'd0345e5f3a604314b52b1c7f6e732780f55d8b82fb1a697fbe5dcdd0d9bcf50c',
};
const xquadLanguages = [...languages.tuned, ...languages['held-out']];
const downloadLimitMs = 120_000;

/**
 * @param {string | undefined} file the published `locomo10.json`. It's downloaded if this is undefined
 * @returns {Promise<Conversation[]>}
 */
export async function loadLocomo(file) {
  return parseLocomo(await readLocomo(file)).map(mergeEqualTexts);
}

/** @param {string | undefined} file */
export async function readLocomo(file) {
  const text = await readGiven(file ?? (await download('locomo10.json', locomo.url, '--locomo FILE')));
  if (sha256(text) !== locomo.sha256)
    throw new BootstrapError(`LoCoMo: its SHA-256 is not ${locomo.sha256}; the file is a different version`);
  return text;
}

/**
 * @param {string | undefined} folder the published `chats/100K`. It's downloaded if this is undefined
 * @returns {Promise<Conversation[]>}
 */
export async function loadBeam(folder) {
  /** @type {string[]} */
  const texts = [];
  for (const name of beamFiles())
    texts.push(await readGiven(folder ? join(folder, name) : await download(join('beam', name), `${beam.url}/${name}`, '--beam FOLDER')));
  if (sha256(texts.map(sha256).join('\n')) !== beam.sha256)
    throw new BootstrapError('BEAM: the files are not those of the pinned revision');
  return Array.from({ length: beam.conversations }, (_, index) =>
    mergeEqualTexts(parseBeam(String(index + 1), texts[2 * index] ?? '', texts[2 * index + 1] ?? '')),
  );
}

/**
 * Loads the data set, with one conversation per language.
 * @param {string | undefined} folder with the published files. They're downloaded if this is undefined
 * @returns {Promise<Conversation[]>}
 */
export async function loadXquad(folder) {
  /** @type {string[]} */
  const texts = [];
  for (const language of xquadLanguages) {
    const name = `xquad.${language}.json`;
    texts.push(
      await readGiven(folder ? join(folder, name) : await download(join('xquad', name), `${xquad.url}/${name}`, '--xquad FOLDER')),
    );
  }
  if (sha256(texts.map(sha256).join('\n')) !== xquad.sha256)
    throw new BootstrapError('XQuAD: the files are not those of the pinned revision');
  return xquadLanguages.map((language, index) => mergeEqualTexts(parseXquad(language, texts[index] ?? '')));
}

/** Each conversation has a file with the chat and one with the questions. */
function beamFiles() {
  return Array.from({ length: beam.conversations }, (_, index) => index + 1).flatMap((number) => [
    `${number}/${beam.cut.includes(number) ? 'chat_trunecated.json' : 'chat.json'}`,
    `${number}/probing_questions/probing_questions.json`,
  ]);
}

/**
 * Merges memories with the same text. Some conversations repeat a message, which would otherwise take up two of the
 * first ten results.
 * @param {Conversation} conversation
 * @returns {Conversation}
 */
export function mergeEqualTexts(conversation) {
  /** @type {Map<string, Memory>} */
  const byText = new Map();
  for (const memory of conversation.memories) {
    const first = byText.get(memory.text);
    byText.set(memory.text, first ? { ...first, sources: [...first.sources, ...memory.sources] } : memory);
  }
  return { ...conversation, memories: [...byText.values()] };
}

/** @param {string} path */
async function readGiven(path) {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new BootstrapError(`${path}: cannot be read (${/** @type {NodeJS.ErrnoException} */ (error).code})`);
  }
}

/**
 * Returns the path of a file in the cache directory, and downloads it first if necessary.
 * @param {string} name
 * @param {string} url
 * @param {string} alternative the option with which the user can provide the file
 */
async function download(name, url, alternative) {
  const path = join(cacheDirectory(), 'memory-benchmark', name);
  if (existsSync(path)) return path;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(downloadLimitMs) });
    if (!response.ok) throw new Error(`the server responded with status ${response.status}`);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.part`, await response.text());
    await rename(`${path}.part`, path);
    return path;
  } catch (error) {
    const { message, cause } = /** @type {Error & { cause?: { code?: string } }} */ (error);
    throw new BootstrapError(
      `${url} cannot be downloaded (${cause?.code ?? message}); download the data yourself and pass it with ${alternative}`,
    );
  }
}

/** @param {string} text */
function sha256(text) {
  return createHash('sha256').update(text).digest('hex');
}
