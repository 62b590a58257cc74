/**
 * Fills the tables for memory and stored texts.
 *
 * Texts are made of phrases whose words have a natural frequency distribution. Vectors are made of a topic's vector,
 * the vector of one of its smaller topics, and noise, because each query should have near neighbours. Two vectors have
 * a cosine of about 0.7 if they share the smaller topic, and of about 0.4 if they only share the topic.
 */
import { lexemesSql, tokenizerVersion } from '../../src/memory/text/lexemes.ts';
import { createForeignPhrases } from './foreign-phrases.js';
import {
  bodyEvery,
  callId,
  callMs,
  callsPerConversation,
  conversationId,
  conversationScopeHash,
  conversationTurns,
  dims,
  embeddingModel,
  idAt,
  itemId,
  memoryMs,
  memorySubject,
  pick,
  projectCount,
  projectNumber,
  sha256,
  smallMemories,
  source,
  subject,
  timeOf,
  uuidArray,
} from './shape.js';

/** @typedef {import('./shape.js').Shape} Shape */
/** @typedef {import('./seed-calls.js').RunAll} RunAll */

/** One out of every `foreignEvery` phrases isn't in English. */
const foreignEvery = 4;
const passagesPerConversation = 12;
const sliceRows = 100_000;

/**
 * Creates the phrases and vectors that all rows are made from. They have their own schema, so that we can drop them at
 * the end.
 * @param {Shape} shape
 * @param {RunAll} runAll
 */
export async function createMaterial(shape, runAll) {
  const vectorCount = shape.topics + shape.smallTopics + shape.noises;
  await runAll(['create schema seed_scale']);
  await runAll([
    'create unlogged table seed_scale.phrases (n integer primary key, text text not null, tokens text not null)',
    'create unlogged table seed_scale.paragraphs (n integer primary key, text text not null, tokens text not null)',
    `create unlogged table seed_scale.vectors (n integer primary key, v halfvec(${dims}) not null)`,
  ]);
  await runAll([
    `insert into seed_scale.phrases
     select n, text, text
       from generate_series(0, ${shape.phrases - 1}) n
      cross join lateral (select string_agg(${wordSql('hashint8extended(n * 100 + w, 3)')}, ' ') as text from generate_series(1, 7) w) phrase
      where n % ${foreignEvery} <> 0`,
    ...insertForeignPhrases(shape),
    // Topics have a weight of 1, smaller topics of 0.8, and noise of 0.6.
    `insert into seed_scale.vectors
     select n, (select array_agg((weight * ${normalSql} * 2 / sqrt(${dims}))::real)
                  from generate_series(1, ${dims}) d cross join lateral (select hashint8extended(n * ${dims} + d, 4) as h offset 0) as hashed)::halfvec
       from generate_series(0, ${vectorCount - 1}) n
      cross join lateral (select case when n < ${shape.topics} then 1 when n < ${shape.topics + shape.smallTopics} then 0.8 else 0.6 end as weight) as weighted`,
  ]);
  await runAll([
    `insert into seed_scale.paragraphs
     select numbered.n, string_agg(phrase.text, '. '), string_agg(phrase.tokens, ' ')
       from generate_series(0, ${shape.paragraphs - 1}) as numbered (n)
       join seed_scale.phrases phrase on phrase.n between numbered.n * 5 and numbered.n * 5 + 11
      group by numbered.n`,
  ]);
  await runAll(['analyze seed_scale.phrases', 'analyze seed_scale.paragraphs', 'analyze seed_scale.vectors']);
}

/** @param {Shape} shape */
function insertForeignPhrases({ phrases }) {
  const next = createForeignPhrases();
  const numbers = Array.from({ length: Math.ceil(phrases / foreignEvery) }, (_, index) => index * foreignEvery);
  const rows = numbers.map((n) => ({ n, ...next() })).map(({ n, text, tokens }) => `(${n}, '${text}', '${tokens}')`);
  return [`insert into seed_scale.phrases values ${rows.join(', ')}`];
}

/**
 * Adds up three uniform random numbers. The result is close to a normal distribution with a standard deviation of 0.5.
 */
const normalSql = `(((h & 1048575) + ((h >> 20) & 1048575) + ((h >> 40) & 1048575)) / 1048576.0::float8 - 1.5)`;

/**
 * Picks a word by Zipf's law, which means that the word of rank r occurs about 1/r as often as the most frequent one.
 * @param {string} hash
 */
function wordSql(hash) {
  const rank = `floor(power(20000, ((${hash} >> 3) & 1048575) / 1048576.0::float8))::integer`;
  const syllables = `(array['ka','lo','mi','ne','ru','sa','te','vi','zo','be','du','fi'])`;
  return `(${syllables}[${rank} % 12 + 1] || ${syllables}[${rank} / 12 % 12 + 1] || coalesce(${syllables}[nullif(${rank} / 144, 0) % 12 + 1], '') || coalesce(${syllables}[nullif(${rank} / 1728, 0) % 12 + 1], ''))`;
}

/** @param {Shape} shape @param {RunAll} runAll */
export async function seedMemory(shape, runAll) {
  const conversations = Math.floor(shape.calls / callsPerConversation);
  await runAll([
    ...slices(shape.memories).flatMap((slice) => [insertItems(shape, slice), insertItemPassages(shape, slice)]),
    ...slices(conversations).flatMap((slice) => [
      insertConversations(shape, slice),
      insertConversationPassages(shape, slice),
      ...insertTexts(shape, slice),
    ]),
    ...insertGraph(shape),
    ...insertRest(shape),
  ]);
}

/** @param {number} count @returns {{ from: number, to: number }[]} */
function slices(count) {
  return Array.from({ length: Math.ceil(count / sliceRows) }, (_, index) => ({
    from: index * sliceRows,
    to: Math.min(count, (index + 1) * sliceRows) - 1,
  }));
}

/**
 * Selects a slice of the memories. Each row has the memory's number, its hash, its project and two phrases.
 * @param {Shape} shape
 * @param {{ from: number, to: number }} slice
 */
const itemRows = (shape, { from, to }) => `
      from generate_series(${from}::bigint, ${to}::bigint) as numbered (i)
     cross join lateral (select hashint8extended(i, 5) as h offset 0) as hashed
     cross join lateral (
       select case when i < ${smallMemories} then ${projectCount} else ${projectNumber('h')} end as project,
              i >= ${smallMemories} and (h >> 33) & 15 = 0 as is_closed offset 0) as chosen
      join seed_scale.phrases first on first.n = ${pick('h', 12, shape.phrases)}
      join seed_scale.phrases second on second.n = ${pick('h', 27, shape.phrases)}`;
/** Every eighth memory contains a number that no other memory has. */
const itemNumber = `case when i % 8 = 0 then ' ' || i + 1000000 else '' end`;
const itemText = `first.text || ' ' || second.text || ${itemNumber}`;
const itemTokens = `first.tokens || ' ' || second.tokens || ${itemNumber}`;

/** @param {Shape} shape @param {{ from: number, to: number }} slice */
function insertItems(shape, slice) {
  return `
    insert into memory_items (id, project_id, subject, text, kind, importance, pinned, origin, author, state, ratings_useful, ratings_wrong,
      created_at, updated_at, closed_at, words_sha256)
    select ${itemId(shape, 'i')}, (${uuidArray(shape.projects)})[project], ${memorySubject(shape, 'h', 'i')}, ${itemText},
      (array['fact', 'fact', 'fact', 'preference', 'preference', 'decision', 'event', 'procedure'])[1 + ((h >> 3) & 7)], 1 + ((h >> 6) & 3),
      (h >> 20) & 8191 = 0, case when (h >> 9) & 31 = 0 then 'person' when (h >> 9) & 1 = 0 then 'agent' else 'observed' end, 'key:scal0001',
      case when is_closed then 'closed' else 'live' end, case when (h >> 14) & 31 = 0 then 1 else 0 end, case when (h >> 19) & 255 = 0 then 2 else 0 end,
      at, at, case when is_closed then at + interval '1 day' end, ${sha256(itemText)}
    ${itemRows(shape, slice)}
     cross join lateral (select ${timeOf(memoryMs(shape, 'i'))} as at) as timed`;
}

/** @param {Shape} shape @param {{ from: number, to: number }} slice */
function insertItemPassages(shape, slice) {
  return `
    insert into memory_passages (project_id, subject, item_id, kind, text, lexemes, words_version, embedding, embedding_dims, embedding_model)
    select (${uuidArray(shape.projects)})[project], ${memorySubject(shape, 'h', 'i')}, ${itemId(shape, 'i')},
      (array['fact', 'fact', 'fact', 'preference', 'preference', 'decision', 'event', 'procedure'])[1 + ((h >> 3) & 7)], ${itemText},
      ${lexemesSql(itemTokens)}, ${tokenizerVersion}, ${vectorSql}, ${dims}, '${embeddingModel}'
    ${itemRows(shape, slice)}
    ${vectorJoins(shape, 'hashint8extended(i, 6)')}
     where not is_closed`;
}

const vectorSql = 'l2_normalize(topic.v + small.v + noise_a.v + noise_b.v)';

/** @param {Shape} shape @param {string} hash */
function vectorJoins(shape, hash) {
  return `
     cross join lateral (select ${hash} as vh offset 0) as vector_hash
      join seed_scale.vectors topic on topic.n = ${pick('vh', 0, shape.topics)}
      join seed_scale.vectors small on small.n = ${shape.topics} + ${pick('vh', 0, shape.topics)} * ${shape.smallTopics / shape.topics} + ${pick('vh', 20, shape.smallTopics / shape.topics)}
      join seed_scale.vectors noise_a on noise_a.n = ${shape.topics + shape.smallTopics} + ${pick('vh', 30, shape.noises)}
      join seed_scale.vectors noise_b on noise_b.n = ${shape.topics + shape.smallTopics} + ${pick('vh', 42, shape.noises)}`;
}

/**
 * Selects a slice of the conversations. Each row has a hash and the conversation's project.
 * @param {{ from: number, to: number }} slice
 */
const conversationRows = ({ from, to }) => `
      from generate_series(${from}::bigint, ${to}::bigint) as numbered (c)
     cross join lateral (select ${conversationScopeHash('c')} as h, hashint8extended(c, 7) as th offset 0) as hashed
     cross join lateral (select ${projectNumber('h')} as project offset 0) as chosen`;

/** @param {Shape} shape @param {{ from: number, to: number }} slice */
function insertConversations(shape, slice) {
  const last = `(c * ${callsPerConversation} + ${bodyEvery * (conversationTurns - 1)})`;
  return `
    insert into conversations (id, project_id, source, subject, state, learnable, title, text, calls, messages, batched_messages, tip_key,
      tip_message_key, started_at, last_turn_at, read_at)
    select ${conversationId(shape, 'c')}, (${uuidArray(shape.projects)})[project], ${source('h')}, ${subject('h')}, 'read', true, title.text,
      'user: ' || paragraph.text, ${conversationTurns}, ${2 * conversationTurns}, ${2 * conversationTurns},
      ${sha256(`'tip' || c`)}, ${sha256(`'tip message' || c`)},
      ${timeOf(callMs(shape, `(c * ${callsPerConversation})`))}, ${timeOf(callMs(shape, last))}, ${timeOf(callMs(shape, last))}
    ${conversationRows(slice)}
      join seed_scale.phrases title on title.n = ${pick('th', 0, shape.phrases)}
      join seed_scale.paragraphs paragraph on paragraph.n = ${pick('th', 20, shape.paragraphs)}`;
}

/** @param {Shape} shape @param {{ from: number, to: number }} slice */
function insertConversationPassages(shape, slice) {
  const text = `phrase.text || '. ' || paragraph.text`;
  const tokens = `phrase.tokens || ' ' || paragraph.tokens`;
  return `
    insert into memory_passages (project_id, subject, conversation_id, text, lexemes, words_version, embedding, embedding_dims, embedding_model)
    select (${uuidArray(shape.projects)})[project], ${subject('h')}, ${conversationId(shape, 'c')}, ${text}, ${lexemesSql(tokens)},
      ${tokenizerVersion}, ${vectorSql}, ${dims}, '${embeddingModel}'
    ${conversationRows(slice)}
     cross join lateral (select hashint8extended(c * ${passagesPerConversation} + p, 8) as ph from generate_series(1, ${passagesPerConversation}) p) as passages
      join seed_scale.phrases phrase on phrase.n = ${pick('ph', 0, shape.phrases)}
      join seed_scale.paragraphs paragraph on paragraph.n = ${pick('ph', 20, shape.paragraphs)}
    ${vectorJoins(shape, 'ph')}`;
}

/**
 * Inserts a question and an answer for each call of a conversation.
 * @param {Shape} shape
 * @param {{ from: number, to: number }} slice
 */
function insertTexts(shape, slice) {
  const messages = 2 * conversationTurns;
  const call = (/** @type {string} */ turn) => `(c * ${callsPerConversation} + ${bodyEvery} * (${turn}))`;
  const hash = (/** @type {string} */ position) => sha256(`'part' || c || '/' || ${position}`);
  const places = `${conversationRows(slice)} cross join generate_series(0, ${messages - 1}) as place (position)`;
  const at = timeOf(callMs(shape, call('position / 2')));
  return [
    `insert into parts (project_id, hash, parent_hash, role, content, created_at)
     select (${uuidArray(shape.projects)})[project], ${hash('position')}, case when position > 0 then ${hash('(position - 1)')} end,
       case position % 2 when 0 then 'user' else 'assistant' end, jsonb_build_object('text', paragraph.text, 'tool_calls', '[]'::jsonb), ${at}
     ${places}
       join seed_scale.paragraphs paragraph on paragraph.n = (${pick('th', 20, shape.paragraphs)} + position) % ${shape.paragraphs}`,
    `insert into conversation_parts (conversation_id, position, part_hash, place_key, message_hash, call_id, created_at)
     select ${conversationId(shape, 'c')}, position, ${hash('position')}, ${sha256(`'place' || c || '/' || position`)},
       ${sha256(`'message' || c || '/' || position`)}, case position % 2 when 1 then ${callId(shape, call('position / 2'))} end, ${at}
     ${places}`,
    `insert into call_texts (call_id, project_id, conversation_id, subject, last_hash, answered, created_at)
     select ${callId(shape, call('turn'))}, (${uuidArray(shape.projects)})[project], ${conversationId(shape, 'c')}, ${subject('h')},
       ${hash('(turn * 2 + 1)')}, true, ${timeOf(callMs(shape, call('turn')))}
     ${conversationRows(slice)} cross join generate_series(0, ${conversationTurns - 1}) as turns (turn)`,
  ];
}

/** For every tenth memory, inserts a fact about two entities of the same project. @param {Shape} shape */
function insertGraph(shape) {
  const large = Math.max(10, Math.ceil(shape.memories / 60));
  const entities = `(case when project = 1 then ${large} else ${Math.ceil(large / 10)} end)`;
  const entityId = (/** @type {string} */ number) => idAt(String(shape.startMs), `'entity' || project || '/' || ${number}`);
  const factId = idAt(memoryMs(shape, 'n'), `'fact' || n`);
  const text = `'entity ' || one || ' works with entity ' || other`;
  const rows = `
      from generate_series(0::bigint, ${shape.memories - 1}::bigint, 10) as numbered (n)
     cross join lateral (select hashint8extended(n, 5) as h offset 0) as hashed
     cross join lateral (
       select case when n < ${smallMemories} then ${projectCount} else ${projectNumber('h')} end as project offset 0) as chosen
     cross join lateral (
       select (((h >> 15) & 1048575) % ${entities})::integer as one, (((h >> 30) & 1048575) % ${entities})::integer as other offset 0) as ends`;
  return [
    `insert into memory_entities (id, project_id, name, folded_name, created_at)
     select ${entityId('e')}, (${uuidArray(shape.projects)})[project], 'Entity ' || e, 'entity ' || e, ${timeOf(String(shape.startMs))}
       from generate_series(1, ${projectCount}) as numbered (project) cross join lateral generate_series(0, ${entities} - 1) e`,
    `insert into memory_facts (id, project_id, subject, source_id, relation, target_id, fact, lexemes, words_version, valid_from, created_at)
     select ${factId}, (${uuidArray(shape.projects)})[project], ${memorySubject(shape, 'h', 'n')}, ${entityId('one')}, 'works_with', ${entityId('other')}, ${text},
       ${lexemesSql(text)}, ${tokenizerVersion}, ${timeOf(memoryMs(shape, 'n'))}, ${timeOf(memoryMs(shape, 'n'))} ${rows}`,
    `insert into memory_fact_items (fact_id, item_id) select ${factId}, ${itemId(shape, 'n')} ${rows}`,
  ];
}

/**
 * Fills the remaining tables, which are the embedding state, memory settings, pages, learning batches and the audit
 * log.
 * @param {Shape} shape
 */
function insertRest(shape) {
  const each = `from unnest(${uuidArray(shape.projects)}) with ordinality as project (id, number)`;
  const batches = Math.max(10, Math.floor(shape.memories / 1_000));
  return [
    `insert into memory_embeddings (project_id, model, passages) select id, '${embeddingModel}', 0 ${each}`,
    `insert into memory_settings (project_id, settings) select id, '{"enabled": true}' ${each}`,
    `insert into memory_pages (project_id, kind, text)
     select id, 'knowledge', (select text from seed_scale.paragraphs where n = 1) ${each}`,
    `insert into memory_pages (project_id, kind, subject, text)
     select '${shape.projects[0]}', 'profile', 'user-' || n, text from seed_scale.paragraphs where n < 1000`,
    `insert into memory_batches (id, project_id, kind, state, created_at, finished_at)
     select ${idAt(memoryMs(shape, 'n'), `'batch' || n`)}, (${uuidArray(shape.projects)})[${projectNumber('hashint8extended(n, 9)')}], 'normal', 'done',
       ${timeOf(memoryMs(shape, 'n'))}, ${timeOf(memoryMs(shape, 'n'))} + interval '1 minute'
       from generate_series(0::bigint, ${shape.memories - 1}::bigint, ${Math.max(1, Math.floor(shape.memories / batches))}) as numbered (n)`,
    `insert into audit_log (at, actor, action, detail, project_id, outcome)
     select to_timestamp(${shape.startMs} / 1000.0) + n * interval '10 minutes', 'admin_token', 'key.issue', '{}',
       (${uuidArray(shape.projects)})[1 + n % ${projectCount}], 'ok' from generate_series(1, 20000) n`,
  ];
}
