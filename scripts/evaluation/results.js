/**
 * Stores an evaluation's results in the cache directory, one per line. Results cost money, so a run that was killed can
 * continue where it left off.
 */
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sha256 } from '../../src/core/sha256.ts';

/**
 * Opens the file. The key of a result has to include everything that the result depends on, such as the model, the
 * prompt and the question.
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
      // A process was killed while it was writing this line. The result is lost, so the question has to be asked again.
    }
  }
  // Terminate a truncated line, so that the next result starts on its own line.
  if (text !== '' && !text.endsWith('\n')) await appendFile(path, '\n');
  return {
    /** @param {readonly unknown[]} parts */
    has: (parts) => results.has(toKey(parts)),
    /**
     * Returns the stored result for these parts if there is one. Otherwise runs `work`, and stores its result before
     * returning it.
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
