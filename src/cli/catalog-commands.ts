/** `gateway catalog …`: the models in force, and rows from the public price table into the running service. */
import { readFile } from 'node:fs/promises';
import { vendorOfHost } from '../config/starter-catalog.ts';
import { messageOf } from '../core/error-messages.ts';
import { type JsonObject, listOf, objectOf, textOf } from '../core/json/narrow.ts';
import { type ConvertedTable, convertPriceTable, type TableProvider } from './price-table.ts';
import { CommandError, type ServiceClient } from './service-client.ts';

export interface ImportRequest {
  readonly client: ServiceClient;
  /** Path of the table. */
  readonly file: string | undefined;
  /** `<name in the table>=<provider>`, from the command line. */
  readonly as: readonly string[];
}

/** The service's receipt, with what was not sent and why. */
export async function importCatalog({ client, file, as }: ImportRequest): Promise<JsonObject> {
  if (file === undefined) throw new CommandError('which file? gateway catalog import <file>');
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new CommandError(`${file} cannot be read: ${messageOf(cause)}`, null, cause);
  });
  const { providers } = await client.send('GET', '/provision/catalog');
  const { models, skipped, foreign } = convert(file, text, tableProviders(listOf(providers), as));
  if (Object.keys(models).length === 0 && skipped.length === 0) {
    throw new CommandError(
      'no provider is one of the vendors of this table; name it with --as <name in the table>=<provider>, for example --as openai=proxy',
    );
  }
  const receipt = await client.send('PUT', '/provision/catalog', { models });
  return { ...receipt, skipped, foreign };
}

/** Takes an imported row away; a built-in one comes back into force. */
export function removeImported(client: ServiceClient, model: string | undefined): Promise<JsonObject> {
  if (model === undefined) throw new CommandError('which model? gateway catalog remove <provider>/<model>');
  return client.send('PUT', '/provision/catalog', { models: { [model]: null } });
}

function convert(file: string, text: string, providers: readonly TableProvider[]): ConvertedTable {
  try {
    return convertPriceTable(text, providers);
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? 'it is no JSON' : messageOf(cause);
    throw new CommandError(`${file} is no price table: ${reason}`, null, cause);
  }
}

/** Whose rows each provider gets: the vendors named with `--as`, else the vendor at its address, else the one of its name. */
function tableProviders(providers: readonly unknown[], as: readonly string[]): TableProvider[] {
  const named = as.map(readNaming);
  const rows = providers.map(objectOf).map(({ name, host, serves }): TableProvider => {
    const provider = textOf(name) ?? '';
    const given = named.filter((naming) => naming.provider === provider).map(({ tableName }) => tableName);
    const known = vendorOfHost(textOf(host) ?? '')?.tableNames ?? [provider];
    return { name: provider, serves: listOf(serves).flatMap((route) => textOf(route) ?? []), tableNames: given.length > 0 ? given : known };
  });
  for (const { provider } of named) {
    if (!rows.some(({ name }) => name === provider)) throw new CommandError(`--as: there is no provider ${provider}`);
  }
  return rows;
}

function readNaming(text: string): { tableName: string; provider: string } {
  const match = /^([^=]+)=([^=]+)$/.exec(text);
  if (!match) throw new CommandError('--as must be <name in the table>=<provider>, for example --as openai=proxy');
  return { tableName: match[1] ?? '', provider: match[2] ?? '' };
}
