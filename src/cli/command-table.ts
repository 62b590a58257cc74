/**
 * Every command that calls a running service: its arguments and options, the operations of the API that it calls, and how it prints. The help
 * lists them in this order.
 */
import { importCatalog, removeImportedRow } from './catalog-commands.ts';
import type { Command } from './command.ts';
import { formatBatch, formatBatches, formatReplay } from './format-batches.ts';
import { formatCatalog, formatImport, formatRemoval } from './format-catalog.ts';
import {
  formatApplications,
  formatCalls,
  formatErasures,
  formatFailedAttempts,
  formatIssuedKey,
  formatKeys,
  formatLeases,
  formatProjects,
  formatQuarantine,
  formatRules,
} from './format-reports.ts';
import { exportMemory, formatMemoryExport, formatMemoryImport, importMemory } from './memory-commands.ts';
import { peopleCommands } from './people-commands.ts';
import { createKey, createProject, replayBatches, setProject } from './special-commands.ts';
import { formatRecord, toRows } from './table.ts';
import { formatReprice, formatUsage, repriceUsage } from './usage-commands.ts';

const team = '/provision/teams/{project}';
const projectArgument = { project: 'project' } as const;
const projectOptions = [
  ...([
    'name',
    'providers',
    'tier',
    'image-tier',
    'speech-tier',
    'transcription-tier',
    'retired',
    'catalog-fill',
    'may-call',
    'monthly-cap',
    'on-budget-store-down',
  ] as const),
  ...(['cache', 'cache-ttl', 'cache-sampled', 'error-codes', 'time-zone', 'file'] as const),
] as const;
const ceilingOptions = ['calls', 'calls-window', 'cost', 'cost-window'] as const;

export const commands: Readonly<Record<string, Command>> = {
  'projects list': {
    summary: 'list the projects',
    operations: ['get /provision/teams'],
    format: (response) => formatProjects(toRows(response)),
  },
  'projects create': {
    summary: 'create a project',
    args: projectArgument,
    options: projectOptions,
    operations: [`get ${team}`, `put ${team}`],
    run: createProject,
    format: formatRecord,
  },
  'projects show': { summary: 'show the settings of a project', args: projectArgument, operations: [`get ${team}`], format: formatRecord },
  'projects set': {
    summary: 'change settings; what is not named stays',
    args: projectArgument,
    options: projectOptions,
    operations: [`get ${team}`, `put ${team}`],
    run: setProject,
    format: formatRecord,
  },

  'keys create': {
    summary: 'create a key, and the project if it does not exist',
    options: [
      'project',
      'name',
      'models',
      ...ceilingOptions,
      'rpm',
      'tpm',
      'on-budget-store-down',
      'default-max-output-tokens',
      'expires',
      'file',
    ],
    operations: [`post ${team}/keys`],
    run: createKey,
    format: (response, { values }) => formatIssuedKey(response, values.project),
  },
  'keys list': {
    summary: 'list the keys of a project',
    options: ['project'],
    operations: [`get ${team}/keys`],
    format: (response) => formatKeys(toRows(response)),
  },
  'keys revoke': {
    summary: 'revoke a key at once',
    args: { prefix: 'prefix' },
    options: ['project'],
    operations: [`delete ${team}/keys/{prefix}`],
    format: (response) => formatKeys([response]),
  },
  'keys rotate': {
    summary: 'replace a key by one with the same settings',
    args: { prefix: 'prefix' },
    options: ['project', 'grace'],
    operations: [`post ${team}/keys/{prefix}/rotate`],
    format: (response, { values }) => formatIssuedKey(response, values.project),
  },

  'applications list': {
    summary: 'list the applications with settings',
    options: ['project'],
    operations: [`get ${team}/applications`],
    format: (response) => formatApplications(toRows(response)),
  },
  'applications show': {
    summary: 'show the settings of an application',
    args: { source: 'application' },
    options: ['project'],
    operations: [`get ${team}/applications/{source}`],
    format: formatRecord,
  },
  'applications set': {
    summary: 'change settings; what is not named stays',
    args: { source: 'application' },
    options: ['project', ...ceilingOptions, 'tier', 'image-tier', 'speech-tier', 'transcription-tier', 'file'],
    operations: [`put ${team}/applications/{source}`],
    format: formatRecord,
  },
  'applications reset': {
    summary: 'remove the settings, so that the defaults apply',
    args: { source: 'application' },
    options: ['project'],
    operations: [`delete ${team}/applications/{source}`],
    format: formatRecord,
  },

  'rules show': {
    summary: 'show the content rules',
    options: ['project'],
    operations: [`get ${team}/rules`],
    format: formatRules,
  },
  'rules set': {
    summary: 'replace all content rules',
    options: ['project', 'rule', 'file'],
    operations: [`put ${team}/rules`],
    format: formatRules,
  },

  'memory show': { summary: 'show the memory settings', options: ['project'], operations: [`get ${team}/memory`], format: formatRecord },
  'memory set': {
    summary: 'change settings; what is not named stays',
    options: [
      'project',
      'memory',
      'only-senders',
      'delete-after-days',
      'delete-unlearned',
      'pending-deletion',
      'batch-of',
      'at-least-every',
      'file',
    ],
    operations: [`put ${team}/memory`],
    format: formatRecord,
  },

  'memory export': {
    summary: 'write memories, conversations and pages to a file',
    options: ['project', 'subject', 'output'],
    operations: [`get ${team}/memory/export`],
    run: exportMemory,
    format: formatMemoryExport,
  },
  'memory import': {
    summary: 'import memories, conversations and pages from a file; what exists stays as it is',
    options: ['project', 'input', 'format', 'restore-erased', 'dry-run'],
    operations: [`post ${team}/memory/import`],
    run: importMemory,
    format: formatMemoryImport,
  },

  calls: {
    summary: 'list the latest calls, of a project or of all; with --failed the attempts that failed and why',
    options: ['project', 'failed', 'limit', 'before', 'task', 'source'],
    operations: [`get ${team}/calls`, 'get /provision/calls'],
    format: (response, { values }) => (values.failed === true ? formatFailedAttempts : formatCalls)(toRows(response)),
  },

  'batches list': {
    summary: 'list batches, newest first',
    options: ['project', 'state'],
    operations: [`get ${team}/batches`, 'get /provision/batches'],
    format: (response) => formatBatches(toRows(response)),
  },
  'batches show': {
    summary: 'show a batch with its groups and their errors',
    args: { id: 'batch' },
    options: ['project'],
    operations: [`get ${team}/batches/{id}`, 'get /provision/batches/{id}'],
    format: formatBatch,
  },
  'batches replay': {
    summary: 'retry at once what failed or waits: of a batch, or of all batches of a project with --state failed|stopped',
    args: { id: 'batch' },
    options: ['project', 'state'],
    operations: [`post ${team}/batches/{id}/replay`, 'post /provision/batches/{id}/replay', 'post /provision/batches/replay'],
    run: replayBatches,
    format: formatReplay,
  },
  'batches stop': {
    summary: 'give up a failed batch, which ends its alert; a replay starts it again',
    args: { id: 'batch' },
    operations: ['post /provision/batches/{id}/stop'],
    format: formatBatch,
  },

  'erasures list': {
    summary: 'list erasures of end users, newest first',
    options: ['project', 'limit'],
    operations: [`get ${team}/erasures`],
    format: (response) => formatErasures(toRows(response)),
  },
  'erasures show': {
    summary: 'show an erasure with its counts',
    args: { id: 'erasure' },
    options: ['project'],
    operations: [`get ${team}/erasures/{id}`],
    format: formatRecord,
  },

  'leases list': {
    summary: 'list the leases that processes hold on ceilings',
    operations: ['get /provision/leases'],
    format: (response) => formatLeases(toRows(response)),
  },
  'leases release': {
    summary: 'release the leases of a dead process whose journal is lost',
    args: { process: 'process' },
    operations: ['delete /provision/leases/{process}'],
    format: ({ process, released }) => `Released ${String(released)} ${released === 1 ? 'lease' : 'leases'} of ${String(process)}.\n`,
  },

  'quarantine list': {
    summary: 'list the records that the database rejected, on the host of the service',
    operations: ['get /provision/quarantine'],
    format: (response) => formatQuarantine(toRows(response)),
  },

  'catalog list': {
    summary: 'list the active models with prices and the origin of each row',
    operations: ['get /provision/catalog'],
    format: (response) => formatCatalog(toRows(response)),
  },
  'catalog import': {
    summary: 'import models and prices from the public price table',
    args: { file: 'file' },
    options: ['as'],
    operations: ['get /provision/catalog', 'put /provision/catalog'],
    run: importCatalog,
    format: formatImport,
  },
  'catalog remove': {
    summary: 'remove an imported row',
    args: { model: 'provider/model' },
    operations: ['put /provision/catalog'],
    run: removeImportedRow,
    format: formatRemoval,
  },

  ...peopleCommands,

  'usage show': {
    summary: 'show the spend of the current month by model, application and task',
    options: ['project'],
    operations: [`get ${team}/usage`],
    format: formatUsage,
  },
  'usage reprice': {
    summary: 'recalculate the cost of stored calls',
    options: ['from', 'to', 'prices', 'models', 'project'],
    operations: ['post /provision/usage/reprice'],
    run: repriceUsage,
    format: formatReprice,
  },
};
