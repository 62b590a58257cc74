/** Operations of the memory routes (docs/api/reference.md#memory). */
import { databaseCodes, keyCodes, type OperationSpecs } from '../../openapi/contract/operation-spec.ts';

const base = { tag: 'memory', auth: 'key' } as const;
const codes = [...keyCodes, ...databaseCodes];
const withBody = [400, 413, 415] as const;
const withSchema = [...withBody, 422] as const;

export const memoryOperations: OperationSpecs = {
  'post /v1/memory/items': {
    ...base,
    summary: 'Saves a memory',
    body: { name: 'MemoryItemBody' },
    responses: { 201: 'MemoryItem' },
    codes: [...codes, 'bad_request', 'forbidden', 'guardrail_blocked', 'memory_off'],
    plain: withBody,
  },
  'patch /v1/memory/items/{id}': {
    ...base,
    summary: 'Corrects a memory: closes it and creates its replacement',
    parameters: ['item'],
    body: { name: 'MemoryCorrectionBody' },
    responses: { 200: 'MemoryItem' },
    codes: [...codes, 'bad_request', 'forbidden', 'guardrail_blocked', 'not_found', 'memory_off'],
    plain: withBody,
  },
  'delete /v1/memory/items/{id}': {
    ...base,
    summary: 'Removes a memory',
    parameters: ['item'],
    responses: { 200: 'MemoryRemoval' },
    codes: [...codes, 'forbidden', 'not_found'],
    plain: [400],
  },
  'post /v1/memory/items/{id}/rating': {
    ...base,
    summary: 'Rates a memory; two `wrong` ratings exclude it from recall',
    parameters: ['item'],
    body: { name: 'MemoryRatingBody' },
    responses: { 200: 'MemoryItem' },
    codes: [...codes, 'bad_request', 'not_found'],
    plain: withBody,
  },
  'post /v1/memory/search': {
    ...base,
    summary: 'Searches memories and conversations by text and by meaning',
    body: { name: 'MemorySearchBody' },
    responses: { 200: 'MemorySearch' },
    codes: [...codes, 'bad_request'],
    plain: withSchema,
  },
  'post /v1/memory/wake-up': {
    ...base,
    summary: 'Gets the context for the start of an agent',
    body: { name: 'MemoryWakeUpBody', optional: true },
    responses: { 200: 'MemoryWakeUp' },
    codes: [...codes, 'bad_request'],
    plain: withBody,
  },
  'post /v1/memory/graph': {
    ...base,
    summary: 'Lists live facts of the graph',
    body: { name: 'MemoryGraphBody', optional: true },
    responses: { 200: 'MemoryFacts' },
    codes,
    plain: withSchema,
  },
  'delete /v1/memory/subjects/{subject}': {
    ...base,
    summary: 'Erases a subject: memories, profile, conversations, and the prompts and responses of its calls',
    parameters: ['subject'],
    responses: { 200: 'MemoryErasure' },
    codes: [...codes, 'bad_request'],
  },
  'post /v1/memory/episodes/{id}/remember': {
    ...base,
    summary: 'Learns from a whole conversation at once',
    parameters: ['id'],
    body: { name: 'MemoryRememberBody', optional: true },
    responses: { 202: 'MemoryRemembered' },
    codes: [...codes, 'bad_request', 'not_found', 'memory_off'],
    plain: withBody,
  },
  'get /v1/memory/episodes/{id}': {
    ...base,
    summary: 'Gets a conversation',
    parameters: ['id'],
    responses: { 200: 'Episode' },
    codes: [...codes, 'not_found'],
    plain: [400],
  },
};
