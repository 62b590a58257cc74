/**
 * Records a model's responses in a file, so that a run can be repeated without asking the vendor again. Responses are
 * looked up by a hash of their prompt. Memories have different ids in each run, so they're replaced by their position
 * in a sorted list.
 */
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sha256 } from '../../src/core/sha256.ts';
import { askScripted } from './scripted-model.js';

/** @typedef {import('./learn.js').AskModel} AskModel */
/** @typedef {import('./learn.js').ModelPrompt} ModelPrompt */
/** @typedef {{ case: string, key: string, response: string }} Entry */

const format = 'learning-recording/1';

/**
 * Continues the recording in a file or starts a new one. Recorded prompts aren't sent to the model again.
 * @param {string} path
 * @param {string} model the name under which the report shows the model
 */
export async function openRecording(path, model) {
  const existing = await read(path);
  if (existing && existing.model !== model)
    throw new Error(`${path}: already contains responses of ${existing.model}; record to another file`);
  if (!existing) {
    await mkdir(dirname(path), { recursive: true });
    await appendFile(path, `${JSON.stringify({ format, model })}\n`);
  }
  const next = takeInOrder(existing?.entries ?? []);
  return {
    /** @param {string} caseId @param {AskModel} ask @returns {AskModel} */
    recordFor: (caseId, ask) => async (prompt, conversation) => {
      const { key, ids } = identify(prompt);
      const recorded = next(caseId, key);
      if (recorded !== null) return restoreIds(recorded, ids);
      const response = await ask(prompt, conversation);
      await appendFile(path, `${JSON.stringify({ case: caseId, key, response: replaceIds(response, ids) })}\n`);
      return response;
    },
  };
}

/** Opens a recording, so that we can take responses from it. @param {string} path */
export async function openReplay(path) {
  const recording = await read(path);
  if (!recording) throw new Error(`${path}: not found`);
  const next = takeInOrder(recording.entries);
  /** @type {Set<string>} */
  const unrecorded = new Set();
  let consolidations = 0;
  return {
    model: recording.model,
    /** Returns the cases that couldn't be replayed, because there's no response to their current prompts. */
    unrecorded: () => [...unrecorded],
    /** Returns how many consolidations we've skipped because there was no response to their prompt. */
    leftOut: () => consolidations,
    /**
     * Replays a model's responses for a case. A consolidation prompt contains the statements that were learned before.
     * If we now refuse different statements than in the recorded run, the prompt changes and we have no response for
     * it. We then skip the consolidation and only judge the extraction.
     * @param {string} caseId @returns {AskModel}
     */
    replayFor: (caseId) => async (prompt, conversation) => {
      const { key, ids } = identify(prompt);
      const recorded = next(caseId, key);
      if (recorded !== null) return restoreIds(recorded, ids);
      if (prompt.job === 'extract') unrecorded.add(caseId);
      else consolidations += 1;
      return askScripted(prompt, { ...conversation, scripted: [] });
    },
  };
}

/** @param {string} path @returns {Promise<{ model: string, entries: Entry[] } | null>} null if there's no such file */
async function read(path) {
  const text = await readFile(path, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null || text === '') return null;
  const [head, ...entries] = text.split('\n').flatMap(parseLine);
  if (head?.format !== format) throw new Error(`${path}: not a recording of evaluate-learning`);
  // If a process was killed while writing, the last line is incomplete. Terminate it, so that the next response starts
  // on its own line.
  if (!text.endsWith('\n')) await appendFile(path, '\n');
  return { model: head.model, entries };
}

/** @param {string} line @returns {any[]} nothing if a process was killed while it was writing the line */
function parseLine(line) {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}

/**
 * If a prompt has several responses, e.g. because the first one was unusable, they're returned in the order in which
 * they were recorded.
 * @param {readonly Entry[]} entries
 */
function takeInOrder(entries) {
  const byPrompt = Map.groupBy(entries, ({ case: caseId, key }) => `${caseId} ${key}`);
  return (/** @type {string} */ caseId, /** @type {string} */ key) => byPrompt.get(`${caseId} ${key}`)?.shift()?.response ?? null;
}

/**
 * @param {ModelPrompt} prompt
 * @returns {{ key: string, ids: readonly string[] }} the hash of the prompt without its ids, and the ids
 */
function identify({ job, system, text, schema }) {
  if (job === 'extract') return { key: toKey([system, schema, text]), ids: [] };
  const { about, ...lists } = JSON.parse(text);
  const entries = Object.entries(lists).map(([name, list]) => {
    const sorted = /** @type {{ id: string }[]} */ (list)
      .map(({ id, ...content }) => ({ id, content: JSON.stringify(content) }))
      .sort((one, other) => (one.content < other.content ? -1 : 1));
    return { name, sorted };
  });
  return {
    key: toKey([system, schema, about, entries.map(({ name, sorted }) => [name, sorted.map(({ content }) => content)])]),
    ids: entries.flatMap(({ sorted }) => sorted.map(({ id }) => id)),
  };
}

/** @param {readonly unknown[]} parts */
function toKey(parts) {
  return sha256(JSON.stringify(parts)).toString('base64url');
}

/** @param {string} response @param {readonly string[]} ids */
function replaceIds(response, ids) {
  return ids.reduce((text, id, index) => text.replaceAll(id, `<id ${index}>`), response);
}

/** @param {string} response @param {readonly string[]} ids */
function restoreIds(response, ids) {
  return response.replace(/<id (\d+)>/g, (placeholder, index) => ids[Number(index)] ?? placeholder);
}
