/**
 * Response schemas of the memory routes. They allow additional fields, so that we can add some without a new API
 * version.
 */
import { z } from 'zod';
import { count, id, listSchema, text, time } from '../openapi/schemas/primitives.ts';

const score = z.number().min(0).max(1);

const item = z.looseObject({
  id,
  object: z.literal('memory.item'),
  text: z.string(),
  kind: z.enum(['fact', 'preference', 'decision', 'event', 'procedure']),
  importance: z.int().min(1).max(5),
  subject: text,
  pinned: z.boolean(),
  origin: z.enum(['agent', 'observed', 'person']),
  author: z.string().describe('`key:<prefix>` if it was written with a key'),
  state: z.enum(['live', 'closed']),
  in_recall: z.boolean().describe('false after two `wrong` ratings, until a person confirms the memory'),
  ratings: z.looseObject({ useful: count, wrong: count }),
  episode_id: id.nullable(),
  supersedes: id.nullable(),
  superseded_by: id.nullable(),
  created_at: time,
  updated_at: time,
  closed_at: time.nullable(),
});

const found = z.looseObject({
  item,
  score,
  matched_by: z.array(z.enum(['vector', 'text'])),
  why: z
    .looseObject({
      similarity: z.number().nullable().describe('cosine similarity of the vectors, or null if they were not compared'),
      terms: z.number().describe('how much of the query the memory contains, where rare terms count more'),
      time: z.number().describe('added to the score if the query mentions the time of the memory'),
      neighbours: z.number().describe('what other memories of the same conversation add to the score'),
      ratings: z.number().optional().describe('how much ratings by keys increase or decrease the score, by at most a tenth'),
      relevance: z
        .number()
        .nullable()
        .optional()
        .describe('score from the model of the `memory-rerank` tier, which then decides the order'),
    })
    .describe('why the memory has this place in the list'),
});

const page = z.looseObject({ text: z.string(), updated_at: time }).nullable();

const entity = z.looseObject({ id, name: z.string() });

const progress = {
  messages: count,
  attempts: count.describe('how many times the memory model was called'),
  next_try_at: time.nullable(),
  error: z.looseObject({ code: z.string(), message: text }).nullable().describe('error of the last attempt, or null if it succeeded'),
  cost: z.number().min(0).describe('USD'),
  memories: z.looseObject({ written: count, repeated: count, dropped: count, merged: count }),
  facts: count,
};

const batch = z.looseObject({
  id,
  object: z.literal('memory.batch'),
  project: z.string().describe('slug of the project'),
  kind: z
    .enum(['normal', 'remember', 'page'])
    .describe('a `page` batch rebuilds a page after one of its memories was removed or corrected'),
  state: z
    .enum(['running', 'waiting', 'retrying', 'failing', 'done', 'failed', 'stopped'])
    .describe(
      'a `waiting` batch needs a model, needs memory to be turned on, or will rebuild a page within half a minute; for a `failing` batch, the responses of the model are unusable, and the gateway tries again at most once a day; a `stopped` batch was given up by an operator, or its run was ended in Temporal',
    ),
  episode_id: id.nullable().describe('the conversation, if the batch was started by `remember`'),
  workflow_id: z.string().describe('the workflow id in Temporal'),
  run_url: z.string().nullable().describe('address of the latest run in the web UI of Temporal, or null if the web UI is unknown'),
  ...progress,
  created_at: time,
  finished_at: time.nullable(),
  groups: z
    .array(z.looseObject({ position: count, subject_sha256: text, state: z.enum(['waiting', 'learned', 'done', 'failed']), ...progress }))
    .optional()
    .describe('absent in lists'),
});

const erasure = z.looseObject({
  object: z.literal('memory.erasure'),
  id,
  subject_sha256: z.string().describe('SHA-256 of the subject in hexadecimal'),
  erased_at: time.describe('only data from before this time is deleted'),
  deleted: z.looseObject({
    memories: count,
    profile_pages: count,
    episodes: count,
    calls: count.describe('calls that named the subject, whose cost is kept'),
    call_parts: count,
    graph_facts: count,
    cache_entries: count,
    queued_messages: count.describe('calls that were in progress or not stored yet'),
  }),
  workflows: z.looseObject({
    id: z.string(),
    state: z.enum(['queued', 'waiting', 'done']),
    purged: count,
    text_in_history: z.literal(false),
  }),
});

const erasureOfAll = erasure.extend({
  asked_by: z.string(),
  processes: z.looseObject({ told: count, drained: count }),
  done_at: time.nullable(),
  restored_at: time.nullable().describe('the time at which an import restored data from before the erasure'),
});

export const memoryResponses = {
  Episode: z.looseObject({
    id,
    object: z.literal('memory.episode'),
    title: text,
    subject: text,
    source: z.string(),
    state: z.enum(['stored', 'read']),
    turns: count,
    started_at: time,
    last_turn_at: time,
    read_at: time.nullable(),
    text: z.string().describe('the text that the memory worker reads'),
    messages: z.array(
      z.looseObject({
        role: z.enum(['user', 'assistant']),
        content: z.string(),
        tool_calls: z.array(z.looseObject({ name: z.string(), arguments: z.string() })).optional(),
        created_at: time,
      }),
    ),
  }),
  MemoryErasure: erasure,
  ProjectErasure: erasureOfAll,
  ProjectErasureList: listSchema(erasureOfAll),
  MemoryItem: item,
  MemoryRemoval: z.looseObject({
    id,
    object: z.literal('memory.item'),
    deleted: z.literal(true),
    state: z.literal('closed'),
    closed_at: time,
  }),
  MemorySearch: z.looseObject({
    vector: z.boolean().describe('whether vectors were used, which requires an embeddings route that responded in time'),
    memories: z.array(z.looseObject({ item, score, matched_by: z.array(z.enum(['vector', 'text'])) })),
    episodes: z.array(z.looseObject({ id, title: text, subject: text, snippet: z.string(), score, started_at: time, last_turn_at: time })),
  }),
  MemoryRecall: z.looseObject({
    object: z.literal('memory.recall'),
    dry_run: z.literal(true),
    enabled: z.boolean().describe('false if memory is off, so that nothing is recalled'),
    query: text.describe('the text that was searched for, which is the end of the last user message; null if there is no user message'),
    block: text.describe('the message that recall would insert, or null if there is nothing to insert'),
    memories: z.array(found).describe('memories in the order of the block'),
    left_out: z.array(
      found.extend({
        reason: z
          .enum(['near_duplicate', 'unsafe', 'limit', 'weak_match', 'rated_wrong'])
          .describe(
            'an `unsafe` memory reads like an instruction or contains only markup; `limit` means that the block is full; a `weak_match` has less than a fifth of the best score, which only matters with a budget',
          ),
      }),
    ),
    vector: z.boolean().describe('whether a vector was used'),
    reranked: z.boolean(),
    late: z.boolean().describe('true if the deadline ended a search; recall then uses what it had found, and `rated_wrong` may be missing'),
    duration_ms: z.number().min(0),
  }),
  MemoryWakeUp: z.looseObject({
    pinned: z.array(item),
    trusted: z.array(item).describe('memories that a person wrote, or that were rated useful and never wrong'),
    subject_memories: z.array(item),
    episodes: z.array(z.looseObject({ id, title: text, last_turn_at: time })),
    knowledge_page: page,
    profile: page,
    text: z.string().describe('everything as a block for the prompt; empty if there are no memories'),
  }),
  MemoryFacts: z.looseObject({
    facts: z.array(
      z.looseObject({
        id,
        source: entity,
        relation: z.string(),
        target: entity,
        fact: z.string(),
        subject: text,
        valid_from: time,
        valid_to: time.nullable(),
        created_at: time,
        item_ids: z.array(id),
      }),
    ),
  }),
  MemorySettings: z.looseObject({
    enabled: z.boolean(),
    only_senders: z.array(z.string()),
    delete_conversations_after_days: z.int().nullable(),
    delete_unlearned: z.boolean(),
    batch_of: z.int(),
    at_least_every_minutes: z.int(),
    recall_budget_tokens: z.int().nullable(),
    pending_deletion: z
      .looseObject({
        delete_conversations_after_days: z.int(),
        delete_unlearned: z.boolean(),
        effective_at: time.describe('the change applies from the first daily cleanup after this time'),
        conversations: count.describe('how many conversations the change will delete, counted when it was made; at most 10,000'),
      })
      .nullable()
      .describe('a change that deletes more than before and is not in effect yet'),
  }),
  MemoryRemembered: z.looseObject({ episode_id: id, batch_id: id, status: z.literal('queued'), focus: text }),
  Batch: batch,
  BatchList: listSchema(batch),
  BatchReplay: z.looseObject({
    object: z.literal('memory.batch_replay'),
    project: z.string(),
    state: z.enum(['failed', 'stopped']),
    batches: z.array(id).describe('ids of the batches that are replayed'),
  }),
};
