/**
 * Defines the commands that call a running service. We derive most of them from the API's operations, and `special`
 * overrides what has to be different.
 */
import { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';
import { importCatalog, removeImportedRow } from './catalog-commands.ts';
import type { Command } from './command.ts';
import { formatBatch, formatBatches, formatReplay } from './format-batches.ts';
import { formatCatalog, formatImport, formatRemoval } from './format-catalog.ts';
import {
  formatCalls,
  formatIssuedKey,
  formatReprice,
  formatRuleHits,
  formatRules,
  formatStatus,
  formatUsage,
  lists,
} from './format-reports.ts';
import { exportMemory, formatMemoryExport, formatMemoryImport, importMemory } from './memory-commands.ts';
import { apiOperations, operationsByCommand } from './operations.ts';
import { collect } from './options.ts';
import { createKey, createPerson, createProject, readCalls, replayBatches, setProject } from './special-commands.ts';
import { formatList, formatRecord } from './table.ts';

const put = 'put /provision/catalog';
const createProjectOperation = 'put /provision/teams/{project}';

const special: Readonly<Record<string, Partial<Command>>> = {
  'projects create': { summary: 'Creates a project', operations: [createProjectOperation], run: createProject },
  'projects set': { summary: 'Changes the settings that you name, and keeps the others', run: setProject },
  'keys create': { summary: 'Creates a key, and the project if it does not exist', run: createKey, format: formatIssuedKey },
  'keys revoke': { format: (response) => lists['keys list']({ data: [response] }) },
  'keys rotate': { format: formatIssuedKey },
  'rules show': { format: formatRules },
  'rules set': { format: formatRules },
  'rules hits': { format: formatRuleHits },
  'memory export': {
    options: [new Option('--output <file>', 'the file to write (default: standard output)')],
    run: exportMemory,
    format: formatMemoryExport,
  },
  'memory import': {
    options: [new Option('--input <file>', 'the file to import (default: standard input)')],
    run: importMemory,
    format: formatMemoryImport,
  },
  calls: {
    summary: 'Lists calls, newest first, or shows one call; with --refused, the calls that the gateway refused',
    options: [new Option('--refused', 'list the calls that the gateway refused before they reached a vendor')],
    run: readCalls,
    format: formatCalls,
  },
  'batches list': { format: formatBatches },
  'batches show': { format: formatBatch },
  'batches replay': {
    summary: 'Immediately retries the failed and waiting groups of a batch, or with --state, of all batches of a project',
    run: replayBatches,
    format: formatReplay,
  },
  'batches stop': { format: formatBatch },
  'leases release': {
    format: ({ process, released }) => `Released ${String(released)} ${released === 1 ? 'lease' : 'leases'} of ${String(process)}.\n`,
  },
  'catalog list': { format: formatCatalog },
  'catalog import': {
    summary: 'Imports models and prices from the public price table',
    operations: [put],
    args: ['file'],
    without: ['models'],
    options: [
      new Option(
        '--as <name in the table=provider>',
        'the name that the table uses for the vendor of a provider; may be repeated',
      ).argParser(collect),
    ],
    run: importCatalog,
    format: formatImport,
  },
  'catalog remove': {
    summary: 'Removes an imported row',
    operations: [put],
    args: ['model'],
    without: ['models'],
    run: removeImportedRow,
    format: formatRemoval,
  },
  'people create': {
    summary: 'Creates a person, or confirms one whom an owner added; prints a one-time sign-in link unless you set a password',
    args: ['email'],
    without: ['password'],
    options: [new Option('--password-file <file>', 'file whose first line is the password; - reads standard input')],
    run: createPerson,
  },
  'people delete': { format: ({ email }) => `Deleted ${String(email)}.\n` },
  'sessions revoke': {
    summary: 'Ends a session of a person, or all of them',
    format: ({ revoked }) => `Ended ${String(revoked)} ${revoked === 1 ? 'session' : 'sessions'}.\n`,
  },
  status: { format: formatStatus },
  'tokens create': {
    format: (response) =>
      `${String(response.token)}\n\n${lists['tokens list']({ data: [response] })}\nStore the token now, because it will not be shown again.\n`,
  },
  'tokens revoke': { format: (response) => lists['tokens list']({ data: [response] }) },
  'members remove': { format: ({ email }) => `Removed ${String(email)}.\n` },
  'sign-in-link': {
    format: ({ email, sign_in_url: url, sign_in_url_expires_at: end }) =>
      `${String(url)}\n\nIt ${email === null ? 'creates the account of a deployment admin' : `signs in ${String(email)}`}, once, until ${String(end)}.\n`,
  },
  'usage show': { format: formatUsage },
  // Repricing a busy month takes minutes. If the client gives up earlier, the service still finishes.
  'usage reprice': { timeoutMs: 290_000, format: formatReprice },
};

function createCommand(name: string, operations: readonly string[]): Command {
  const { summary = '', list } = apiOperations[operations[0] ?? ''] ?? {};
  const known: Readonly<Record<string, Command['format']>> = lists;
  const formatDefault = list ? (response: JsonObject) => formatList('Nothing to list.', null, response) : formatRecord;
  return { summary, operations, format: known[name] ?? formatDefault, ...special[name] };
}

const derived = [...operationsByCommand()].filter(([, [operation]]) => operation !== put);
const added = ['projects create', 'catalog import', 'catalog remove'].map((name) => [name, special[name]?.operations ?? []] as const);

export const commands: Readonly<Record<string, Command>> = Object.fromEntries(
  [...derived, ...added].map(([name, operations]) => [name, createCommand(name, operations)]),
);
