/**
 * Keeps the results of an evaluation in the cache directory, one per line. They cost money, so a killed run shouldn't
 * have to start over.
 */
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sha256 } from '../../src/core/sha256.ts';

/**
 * Opens the file with results. Results are identified by everything that they depend on, such as the model, the prompt
 * and the question.
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
      // A process was killed while writing this line, so this result is lost and the model will be asked again.
    }
  }
  // Terminate a truncated line, so that the next result starts on its own line.
  if (text !== '' && !text.endsWith('\n')) await appendFile(path, '\n');
  return {
    /** @param {readonly unknown[]} parts */
    has: (parts) => results.has(toKey(parts)),
    /**
     * Returns the stored result. If there's none, gets it from `work` and stores it.
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
