/** Every command that calls a running service: its arguments and options, the operations of the API that it calls, and how it prints. */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { importCatalog, removeImportedRow } from './catalog-commands.ts';
import type { Command } from './command.ts';
import { formatBatch, formatBatches, formatReplay } from './format-batches.ts';
import { formatCatalog, formatImport, formatRemoval } from './format-catalog.ts';
import { formatAudit, formatMembers, formatPeople, formatSessions, formatSignInLink, formatTokens } from './format-people.ts';
import {
  formatApplications,
  formatCalls,
  formatErasures,
  formatIssuedKey,
  formatKeys,
  formatLeases,
  formatProjects,
  formatQuarantine,
  formatRules,
} from './format-reports.ts';
import { exportMemory, formatMemoryExport, formatMemoryImport, importMemory } from './memory-commands.ts';
import { createKey, createPerson, createProject, replayBatches, setProject } from './special-commands.ts';
import { formatRecord } from './table.ts';
import { formatReprice, formatUsage, repriceUsage } from './usage-commands.ts';

const team = '/provision/teams/{project}';
const person = 'get /provision/people/{email}';
const emailArgument = { email: 'email' } as const;
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
  ] as const),
  ...(['cache', 'cache-ttl', 'time-zone', 'file'] as const),
] as const;
const ceilingOptions = ['calls', 'calls-window', 'cost', 'cost-window'] as const;

const rows = (response: JsonObject): JsonObject[] => asArray(response.data).map(asObject);
const record = (response: JsonObject): string => formatRecord(response);

export const commands: Readonly<Record<string, Command>> = {
  'projects list': {
    summary: 'list the projects',
    operations: ['get /provision/teams'],
    format: (response) => formatProjects(rows(response)),
  },
  'projects create': {
    summary: 'create a project',
    args: projectArgument,
    options: projectOptions,
    operations: [`get ${team}`, `put ${team}`],
    run: createProject,
    format: record,
  },
  'projects show': { summary: 'show the settings of a project', args: projectArgument, operations: [`get ${team}`], format: record },
  'projects set': {
    summary: 'change settings; what is not named stays',
    args: projectArgument,
    options: projectOptions,
    operations: [`get ${team}`, `put ${team}`],
    run: setProject,
    format: record,
  },

  'keys create': {
    summary: 'create a key, and the project if it does not exist',
    options: ['project', 'name', 'models', ...ceilingOptions, 'rpm', 'tpm', 'expires', 'file'],
    operations: [`post ${team}/keys`],
    run: createKey,
    format: (response, { values }) => formatIssuedKey(response, values.project),
  },
  'keys list': {
    summary: 'list the keys of a project',
    options: ['project'],
    operations: [`get ${team}/keys`],
    format: (response) => formatKeys(rows(response)),
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
    format: (response) => formatApplications(rows(response)),
  },
  'applications show': {
    summary: 'show the settings of an application',
    args: { source: 'application' },
    options: ['project'],
    operations: [`get ${team}/applications/{source}`],
    format: record,
  },
  'applications set': {
    summary: 'change settings; what is not named stays',
    args: { source: 'application' },
    options: ['project', ...ceilingOptions, 'tier', 'image-tier', 'speech-tier', 'transcription-tier', 'file'],
    operations: [`put ${team}/applications/{source}`],
    format: record,
  },
  'applications reset': {
    summary: 'remove the settings, so that the defaults apply',
    args: { source: 'application' },
    options: ['project'],
    operations: [`delete ${team}/applications/{source}`],
    format: record,
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

  'memory show': { summary: 'show the memory settings', options: ['project'], operations: [`get ${team}/memory`], format: record },
  'memory set': {
    summary: 'change settings; what is not named stays',
    options: ['project', 'memory', 'only-senders', 'delete-after-days', 'batch-of', 'at-least-every', 'file'],
    operations: [`put ${team}/memory`],
    format: record,
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
    summary: 'list the latest calls of a project',
    options: ['project', 'limit', 'before', 'task', 'source'],
    operations: [`get ${team}/calls`],
    format: (response) => formatCalls(rows(response)),
  },

  'batches list': {
    summary: 'list batches, newest first',
    options: ['project', 'state'],
    operations: [`get ${team}/batches`, 'get /provision/batches'],
    format: (response) => formatBatches(rows(response)),
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

  'erasures list': {
    summary: 'list erasures of end users, newest first',
    options: ['project', 'limit'],
    operations: [`get ${team}/erasures`],
    format: (response) => formatErasures(rows(response)),
  },
  'erasures show': {
    summary: 'show an erasure with its counts',
    args: { id: 'erasure' },
    options: ['project'],
    operations: [`get ${team}/erasures/{id}`],
    format: record,
  },

  'leases list': {
    summary: 'list the leases that processes hold on ceilings',
    operations: ['get /provision/leases'],
    format: (response) => formatLeases(rows(response)),
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
    format: (response) => formatQuarantine(rows(response)),
  },

  'catalog list': {
    summary: 'list the active models with prices and the origin of each row',
    operations: ['get /provision/catalog'],
    format: (response) => formatCatalog(rows(response)),
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

  'people list': {
    summary: 'list people by e-mail address',
    options: ['limit', 'after'],
    operations: ['get /provision/people'],
    format: (response) => formatPeople(rows(response)),
  },
  'people create': {
    summary: 'create a person; without a password with a one-time sign-in link',
    args: emailArgument,
    options: ['name', 'admin', 'password-file'],
    operations: ['post /provision/people'],
    run: createPerson,
    format: record,
  },
  'people show': { summary: 'show a person', args: emailArgument, operations: [person], format: record },
  'people set': {
    summary: 'rename, disable or enable a person, or change whether they are a deployment admin',
    args: emailArgument,
    options: ['name', 'admin', 'disabled'],
    operations: ['patch /provision/people/{email}'],
    format: record,
  },
  'people delete': {
    summary: 'delete a person with their sessions, links and memberships',
    args: emailArgument,
    operations: ['delete /provision/people/{email}'],
    format: ({ email }) => `Deleted ${String(email)}.\n`,
  },

  'sessions list': {
    summary: 'list the sessions of a person',
    args: emailArgument,
    operations: [`${person}/sessions`],
    format: (response) => formatSessions(rows(response)),
  },
  'sessions revoke': {
    summary: 'end a session of a person, or all of them',
    args: { email: 'email', id: 'session' },
    operations: ['delete /provision/people/{email}/sessions/{id}', 'delete /provision/people/{email}/sessions'],
    format: ({ revoked }) => `Ended ${String(revoked)} ${revoked === 1 ? 'session' : 'sessions'}.\n`,
  },

  'tokens list': {
    summary: 'list the personal tokens of a person',
    args: emailArgument,
    operations: [`${person}/tokens`],
    format: (response) => formatTokens(rows(response)),
  },
  'tokens create': {
    summary: 'create a personal token, with which the person uses MCP',
    args: emailArgument,
    options: ['name', 'scopes', 'days'],
    operations: ['post /provision/people/{email}/tokens'],
    format: (response) => `${String(response.token)}\n\n${formatTokens([response])}\nKeep the token: it is shown this once.\n`,
  },
  'tokens revoke': {
    summary: 'revoke a personal token at once',
    args: { email: 'email', id: 'token' },
    operations: ['delete /provision/people/{email}/tokens/{id}'],
    format: (response) => formatTokens([response]),
  },

  'members list': {
    summary: 'list the members of a project',
    options: ['project'],
    operations: [`get ${team}/members`],
    format: (response) => formatMembers(rows(response)),
  },
  'members show': {
    summary: 'show a member',
    args: emailArgument,
    options: ['project'],
    operations: [`get ${team}/members/{email}`],
    format: record,
  },
  'members set': {
    summary: 'add a person to a project, or change their role',
    args: emailArgument,
    options: ['project', 'role'],
    operations: [`put ${team}/members/{email}`],
    format: record,
  },
  'members remove': {
    summary: 'remove a member from a project',
    args: emailArgument,
    options: ['project'],
    operations: [`delete ${team}/members/{email}`],
    format: ({ email }) => `Removed ${String(email)}.\n`,
  },

  'sign-in-link': {
    summary: 'print a one-time link that signs a person in',
    options: ['email', 'admin'],
    operations: ['post /provision/sign-in-links'],
    format: formatSignInLink,
  },

  audit: {
    summary: 'list changes by people and with the admin token, newest first',
    options: ['project', 'person', 'action', 'from', 'to', 'limit', 'before'],
    operations: ['get /provision/audit'],
    format: (response) => formatAudit(rows(response)),
  },

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
