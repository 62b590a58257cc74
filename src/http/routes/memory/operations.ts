import { databaseCodes, keyCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';

const base = { tag: 'memory', auth: 'key' } as const;
const codes = [...keyCodes, ...databaseCodes];
const bodyCodes = [...codes, 'budget_unavailable'] as const;
const withBody = [400, 413, 415] as const;
const withSchema = [...withBody, 422] as const;

export const memoryOperations: OperationSpecs = {
  'post /v1/memory/items': {
    ...base,
    summary: 'Saves a memory',
    details:
      'The memory has the origin `agent` and the author `key:<prefix>`. The gateway replaces credentials in the text with placeholders.',
    body: { name: 'MemoryItemBody', example: { text: 'Prefers metric units', kind: 'preference', subject: 'user-42' } },
    responses: { 201: 'MemoryItem' },
    codes: [...bodyCodes, 'bad_request', 'forbidden', 'guardrail_blocked', 'memory_off'],
    plain: withBody,
  },
  'patch /v1/memory/items/{id}': {
    ...base,
    summary: 'Corrects a memory by closing it and creating its replacement',
    details: 'Only memories with the origin `agent` or `observed` can be corrected.',
    parameters: ['item'],
    body: { name: 'MemoryCorrectionBody' },
    responses: { 200: 'MemoryItem' },
    codes: [...bodyCodes, 'bad_request', 'forbidden', 'guardrail_blocked', 'not_found', 'memory_off'],
    plain: withBody,
  },
  'delete /v1/memory/items/{id}': {
    ...base,
    summary: 'Removes a memory',
    details: 'Only memories with the origin `agent` or `observed` can be removed. For a closed memory, the response is 404.',
    parameters: ['item'],
    responses: { 200: 'MemoryRemoval' },
    codes: [...codes, 'forbidden', 'not_found'],
    plain: [400],
  },
  'post /v1/memory/items/{id}/rating': {
    ...base,
    summary: 'Rates a memory as useful or wrong',
    details:
      'Two `wrong` ratings exclude a memory from recall, until a person confirms it in the console. With `call_id`, you rate memories that recall put into a call. The response is 404 if one of them was not recalled in this call, or if it is not a call of the project.',
    parameters: ['item'],
    body: { name: 'MemoryRatingBody', example: { rating: 'useful' } },
    responses: { 200: 'MemoryItem' },
    codes: [...bodyCodes, 'bad_request', 'not_found'],
    plain: withBody,
  },
  'post /v1/memory/search': {
    ...base,
    summary: 'Searches memories and conversations by text and by meaning',
    details:
      'The search uses vectors if the project has a route for embeddings. With a subject, it only finds memories of this end user and of the whole project.',
    body: { name: 'MemorySearchBody', example: { query: 'units of measurement' } },
    responses: { 200: 'MemorySearch' },
    codes: [...bodyCodes, 'bad_request'],
    plain: withSchema,
  },
  'post /v1/memory/recall': {
    ...base,
    summary: 'Shows what recall would insert into a call',
    details:
      'This does the same as recall for a call with this text or these messages, within the same deadline, but does not call a chat model. The key is charged for the embedding and the rerank.',
    body: { name: 'MemoryRecallBody', example: { text: 'Which units do I use?', subject: 'user-42', dry_run: true } },
    responses: { 200: 'MemoryRecall' },
    codes: [...bodyCodes, 'bad_request'],
    plain: withSchema,
  },
  'post /v1/memory/wake-up': {
    ...base,
    summary: 'Gets the context with which an agent starts',
    details: 'The context contains pinned and trusted memories, the newest conversations, and the pages of the project and the subject.',
    body: { name: 'MemoryWakeUpBody', optional: true, example: { subject: 'user-42' } },
    responses: { 200: 'MemoryWakeUp' },
    codes: [...bodyCodes, 'bad_request'],
    plain: withBody,
  },
  'post /v1/memory/graph': {
    ...base,
    summary: 'Lists the live facts of the graph',
    details: 'The list starts with the newest fact. Without a body, it contains all facts up to the default limit.',
    body: { name: 'MemoryGraphBody', optional: true, example: { entity: 'Ada' } },
    responses: { 200: 'MemoryFacts' },
    codes: bodyCodes,
    plain: withSchema,
  },
  'delete /v1/memory/subjects/{subject}': {
    ...base,
    summary: 'Erases the memories, profile and conversations of a subject, and the prompts and responses of its calls',
    details: 'This happens in one transaction and cannot be undone. Any key of the project may do it.',
    responses: { 200: 'MemoryErasure' },
    codes: [...codes, 'bad_request'],
  },
  'delete /v1/memory/subjects': {
    ...base,
    summary: 'Erases the subject `.` or `..`, which clients remove from a path',
    details: 'This works like `DELETE /v1/memory/subjects/{subject}`, which is for all other subjects.',
    parameters: ['dot_subject'],
    responses: { 200: 'MemoryErasure' },
    codes: [...codes, 'bad_request'],
  },
  'post /v1/memory/episodes/{id}/remember': {
    ...base,
    summary: 'Learns from a whole conversation immediately',
    details: 'A batch starts immediately, even if memory would not learn from this conversation otherwise.',
    parameters: ['id'],
    body: { name: 'MemoryRememberBody', optional: true },
    responses: { 202: 'MemoryRemembered' },
    codes: [...bodyCodes, 'bad_request', 'not_found', 'memory_off'],
    plain: withBody,
  },
  'get /v1/memory/episodes/{id}': {
    ...base,
    summary: 'Gets a conversation',
    details: 'The response includes the text that the memory worker reads.',
    parameters: ['id'],
    responses: { 200: 'Episode' },
    codes: [...codes, 'not_found'],
    plain: [400],
  },
};
