/** Describes the provision routes for memory: settings, exports, imports, erasures and learning batches. */
import type { OperationSpecs } from '../../openapi/contract/operation-spec.ts';
import { projectRead, projectWrite, team } from './operation-defaults.ts';

export const memoryProvisionOperations: OperationSpecs = {
  [`get ${team}/memory`]: {
    ...projectRead,
    summary: 'Gets the memory settings of a project',
    details: 'The response includes defaults.',
    responses: { 200: 'MemorySettings' },
  },
  [`put ${team}/memory`]: {
    ...projectWrite,
    summary: 'Updates the memory settings of a project',
    details: 'The settings apply from the next call on.',
    body: { name: 'MemorySettingsBody', optional: true, example: { delete_conversations_after_days: 90 } },
    responses: { 200: 'MemorySettings' },
  },
  [`get ${team}/memory/export`]: {
    ...projectRead,
    summary: 'Exports the memory of a project',
    details:
      'The file does not contain vectors, because an import computes them again. A complete file ends with a line that counts its records.',
    parameters: ['export_subject'],
    responses: { 200: { 'application/x-ndjson': { schema: { $ref: '#/components/schemas/MemoryFile' } } } },
    codes: [...projectRead.codes, 'budget_unavailable'],
  },
  [`post ${team}/memory/import`]: {
    ...projectWrite,
    summary: 'Imports memory from a file',
    details:
      'The import only adds what the project does not have yet, so you can repeat an interrupted import. If a line cannot be read, the lines before it are imported.',
    parameters: ['import_format', 'dry_run', 'restore_erased'],
    body: { name: 'MemoryFile', mediaType: 'application/x-ndjson' },
    responses: { 200: 'MemoryImport' },
    codes: [...projectWrite.codes, 'memory_off'],
  },
  [`get ${team}/erasures`]: {
    ...projectRead,
    summary: 'Lists erasures, newest first',
    details: 'The response only contains hashes of subjects.',
    parameters: ['limit'],
    responses: { 200: 'ProjectErasureList' },
  },
  [`get ${team}/erasures/{id}`]: {
    ...projectRead,
    summary: 'Gets an erasure with the counts of all processes',
    details:
      '`processes` counts the processes that have purged their caches, and the processes whose journals no longer hold data of the subject.',
    parameters: ['erasure'],
    responses: { 200: 'ProjectErasure' },
  },
  [`get ${team}/batches`]: {
    ...projectRead,
    summary: 'Lists the learning batches of a project, newest first',
    details: 'The list has at most 1,000 batches, without their groups.',
    parameters: ['batch_state'],
    responses: { 200: 'BatchList' },
  },
  [`get ${team}/batches/{id}`]: {
    ...projectRead,
    summary: 'Gets a batch with its groups, one for each end user and one for calls without an end user',
    details: 'The response only contains hashes of subjects.',
    parameters: ['batch'],
    responses: { 200: 'Batch' },
  },
  [`post ${team}/batches/{id}/replay`]: {
    ...projectRead,
    summary: 'Retries the failed and waiting groups of a batch immediately',
    details: 'Groups that are done are not processed again.',
    parameters: ['batch'],
    responses: { 202: 'Batch' },
  },
  'get /provision/batches': {
    ...projectRead,
    summary: 'Lists the learning batches of all projects, newest first',
    details: 'The list has at most 1,000 batches, without their groups.',
    parameters: ['batch_project', 'batch_state'],
    responses: { 200: 'BatchList' },
  },
  'get /provision/batches/{id}': {
    ...projectRead,
    summary: 'Gets a batch of any project with its groups',
    details: 'The response only contains hashes of subjects.',
    parameters: ['batch'],
    responses: { 200: 'Batch' },
  },
  'post /provision/batches/{id}/replay': {
    ...projectRead,
    summary: 'Retries the failed and waiting groups of a batch of any project immediately',
    details: 'Groups that are done are not processed again.',
    parameters: ['batch'],
    responses: { 202: 'Batch' },
  },
  'post /provision/batches/{id}/stop': {
    ...projectRead,
    summary: 'Gives up a failed batch',
    details: 'The batch is then stopped and no longer raises an alert. If you replay it, it starts again.',
    parameters: ['batch'],
    responses: { 200: 'Batch' },
    codes: [...projectRead.codes, 'conflict'],
  },
  'post /provision/batches/replay': {
    ...projectWrite,
    summary: 'Replays all failed or all stopped batches of a project',
    details: 'The response contains the ids of the batches.',
    body: { name: 'BatchReplayBody' },
    responses: { 202: 'BatchReplay' },
  },
};
