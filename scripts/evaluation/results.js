/** Results of an evaluation, each of which had a cost: one line each in a file of the cache directory, so that a run continues after a kill at any point. */
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sha256 } from '../../src/core/sha256.ts';

/**
 * A result is found by everything that it depends on, such as model, prompt and question.
 * @template Result
 * @param {string} path
 */
export async function openResults(path) {
  await mkdir(dirname(path), { recursive: true });
  const text = await readFile(path, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  /** @type {Map<string, Result>} */
  const results = new Map();
  for (const line of text.split('\n').filter((each) => each !== '')) {
    try {
      const { key, result } = JSON.parse(line);
      results.set(key, result);
    } catch {
      // The process was killed while it wrote this line; its result is asked for again.
    }
  }
  // What follows a line that was cut off must not become a part of it.
  if (text !== '' && !text.endsWith('\n')) await appendFile(path, '\n');
  return {
    /** @param {readonly unknown[]} parts */
    has: (parts) => results.has(toKey(parts)),
    /**
     * The stored result, or that of `work`, which is stored before it is returned.
     * @param {readonly unknown[]} parts
     * @param {() => Promise<Result>} work
     * @returns {Promise<Result>}
     */
    async getOrRun(parts, work) {
      const key = toKey(parts);
      const stored = results.get(key);
      if (stored !== undefined) return stored;
      const result = await work();
      await appendFile(path, `${JSON.stringify({ key, result })}\n`);
      results.set(key, result);
      return result;
    },
  };
}

/** @param {readonly unknown[]} parts */
function toKey(parts) {
  return sha256(JSON.stringify(parts)).toString('base64url');
}
