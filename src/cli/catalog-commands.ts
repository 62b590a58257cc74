/** `gateway catalog …`: imports rows of the public price table into the running service and removes them. */
import { findVendorByHost } from '../config/starter-catalog.ts';
import { errorMessage } from '../core/error-messages.ts';
import { asArray, asObject, asString, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { readInput } from './options.ts';
import { type ConvertedTable, convertPriceTable, type TableProvider } from './price-table.ts';
import { CommandError } from './service-client.ts';

/** Resolves to the service's receipt plus the entries that were not sent and why. */
export async function importCatalog({ send, args: { file }, values: { as = [] } }: Invocation): Promise<JsonObject> {
  if (file === undefined) throw new CommandError('which file? gateway catalog import <file>');
  const text = await readInput(file);
  const { providers } = await send('get /provision/catalog');
  const { models, skipped, unmatched } = convertTable({ text, name: file, providers: asArray(providers), as: Array.isArray(as) ? as : [] });
  if (Object.keys(models).length === 0 && skipped.length === 0) {
    throw new CommandError(
      'no provider is one of the vendors of this table; name it with --as <name in the table>=<provider>, for example --as openai=proxy',
    );
  }
  const receipt = await send('put /provision/catalog', { models });
  return { ...receipt, skipped, foreign: unmatched };
}

/** Removes an imported row; a built-in row of the model becomes active again. */
export function removeImportedRow({ send, args: { model } }: Invocation): Promise<JsonObject> {
  if (model === undefined) throw new CommandError('which model? gateway catalog remove <provider>/<model>');
  return send('put /provision/catalog', { models: { [model]: null } });
}

export interface TableInput {
  readonly text: string;
  /** For errors. */
  readonly name: string;
  /** `name`, `host` and `serves` of each configured provider. */
  readonly providers: readonly unknown[];
  /** `<name in the table>=<provider>`. */
  readonly as: readonly string[];
}

/** Converts a price table to rows of the configured providers. Throws CommandError. */
export function convertTable({ text, name, providers, as }: TableInput): ConvertedTable {
  const vendors = tableProviders(providers, as);
  try {
    return convertPriceTable(text, vendors);
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? 'not valid JSON' : errorMessage(cause);
    throw new CommandError(`${name} is not a price table: ${reason}`, null, cause);
  }
}

/** The table's vendor names for each provider: those given with `--as`, else those of the vendor at its host, else the provider's name. */
function tableProviders(providers: readonly unknown[], as: readonly string[]): TableProvider[] {
  const mappings = as.map(parseVendorMapping);
  const rows = providers.map(asObject).map(({ name, host, serves }): TableProvider => {
    const provider = asString(name) ?? '';
    const mappedNames = mappings.filter((mapping) => mapping.provider === provider).map(({ tableName }) => tableName);
    const defaultNames = findVendorByHost(asString(host) ?? '')?.tableNames ?? [provider];
    return {
      name: provider,
      serves: asArray(serves).flatMap((route) => asString(route) ?? []),
      tableNames: mappedNames.length > 0 ? mappedNames : defaultNames,
    };
  });
  for (const { provider } of mappings) {
    if (!rows.some(({ name }) => name === provider)) throw new CommandError(`--as: there is no provider ${provider}`);
  }
  return rows;
}

function parseVendorMapping(text: string): { tableName: string; provider: string } {
  const match = /^([^=]+)=([^=]+)$/.exec(text);
  if (!match) throw new CommandError('--as must be <name in the table>=<provider>, for example --as openai=proxy');
  return { tableName: match[1] ?? '', provider: match[2] ?? '' };
}
