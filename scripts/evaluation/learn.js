/**
 * Learns from the conversations of a case with the service's own code, but with any model and without Temporal.
 */
import { createLearning } from '../../src/app/learning.ts';
import { systemClock } from '../../src/core/time.ts';
import { buildConsolidationPrompt } from '../../src/memory/learning/consolidation.ts';
import { buildExtractionPrompt, parseExtraction } from '../../src/memory/learning/extraction.ts';
import { readGroupMessages } from '../../src/memory/learning/group-messages.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { createProject, recordConversation } from './record.js';

/** @typedef {import('../../src/db/database.ts').Database} Database */
/** @typedef {import('./learning-set.js').LearningCase} LearningCase */
/** @typedef {import('./learning-set.js').LearnedItem} LearnedItem */
/** @typedef {import('../../src/memory/learning/extraction.ts').StructuredPrompt & { job: import('../../src/memory/learning/learn-group.ts').MemoryJob }} ModelPrompt */
/** @typedef {(prompt: ModelPrompt, conversation: import('./learning-set.js').LearningConversation) => Promise<string>} AskModel */
/**
 * @typedef {{ items: LearnedItem[], refusals: string[] }} Learned the memories at the end, and the
 * reason for each refused statement
 */

/** Identifies the version of our prompts. Earlier results can only be reused if it hasn't changed. */
export function promptVersion() {
  const { system, schema } = buildExtractionPrompt([], null);
  return JSON.stringify([system, schema, buildConsolidationPrompt({ subject: null, added: [], known: [], facts: [] })]);
}

/** @param {import('./learning-set.js').LearningConversation} conversation @returns {import('./record.js').Message[]} */
export function datedMessages({ date, messages }) {
  let day = date;
  return messages.map((message) => {
    if ('user' in message) day = message.date ?? day;
    const [role = 'user', text = ''] = Object.entries(message).find(([name]) => name !== 'date') ?? [];
    return { role: /** @type {'user' | 'assistant' | 'tool'} */ (role), text, at: new Date(`${day}T10:00:00Z`) };
  });
}

/**
 * Learns from the conversations of a case in a new project. If the model throws an error, this throws it too, but the
 * project keeps what it has learned until then.
 * @param {Database} database
 * @param {LearningCase} learningCase
 * @param {AskModel} ask
 * @returns {Promise<Learned>}
 */
export async function learnCase(database, { id, conversations }, ask) {
  const projectId = await createProject(database, `${id}-${Date.now().toString(36)}`);
  /** @type {string[]} */
  const refusals = [];
  for (const conversation of conversations) {
    const { subject } = conversation;
    await database.transaction((tx) => recordConversation(tx, { projectId, subject, messages: datedMessages(conversation) }));
    await database.query(`update conversations set state = 'read', read_at = now() where project_id = $1::uuid`, [projectId]);
    refusals.push(...(await learnBatches(database, projectId, (prompt) => ask(prompt, conversation))));
  }
  /** @type {LearnedItem[]} */
  const items = await database.query(
    `select text, kind, subject from memory_items where project_id = $1::uuid and state = 'live' order by created_at, text`,
    [projectId],
  );
  return { items, refusals };
}

/** @param {Database} database @param {string} projectId @param {(prompt: ModelPrompt) => Promise<string>} ask */
async function learnBatches(database, projectId, ask) {
  /** @type {string[]} */
  const responses = [];
  const { activities } = createLearning({
    database,
    clock: systemClock,
    retry: () => ({ initialMs: 1, factor: 1, maxMs: 1 }),
    uiUrl: async () => null,
    logger: createLogger({ level: 'error', destination: process.stderr }),
    model: {
      hasRoute: async () => true,
      async complete({ job, system, text, schema }) {
        const response = await ask({ job, system, text, schema });
        if (job === 'extract') responses.push(response);
        return { kind: 'response', text: response };
      },
    },
  });
  /** @type {string[]} */
  const refusals = [];
  const { signal } = new AbortController();
  for (
    let check = await activities.checkLearning(projectId);
    check.kind === 'running' && check.batch;
    check = await activities.checkLearning(projectId)
  ) {
    const run = { batchId: check.batch, runId: 'evaluation' };
    for (const { position } of (await activities.openBatch(run)).groups) {
      const key = { ...run, position };
      const messages = await readGroupMessages(database, key);
      for (const step of [activities.learnGroup, activities.consolidateGroup]) {
        // `wait` means that the model's response was unusable. Try again, as the workflow would.
        while ((await step(key, signal)).kind === 'wait');
      }
      refusals.push(...(parseExtraction(responses.pop() ?? '', messages)?.refusals ?? ['unusable']));
    }
    await activities.finishBatch(run);
  }
  return refusals;
}
