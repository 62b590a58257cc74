/** `gateway catalog …`: imports rows of the public price table into the running service and removes them. */
import { convertTable, PriceTableError, type TableInput } from '../config/convert-price-table.ts';
import type { ConvertedTable } from '../config/price-table.ts';
import { asArray, type JsonObject } from '../core/json/narrow.ts';
import type { Invocation } from './command.ts';
import { readInput } from './options.ts';
import { CommandError } from './service-client.ts';

/** Resolves to the service's receipt plus the entries that were not sent and why. */
export async function importCatalog({ send, args: { file }, values: { as = [] } }: Invocation): Promise<JsonObject> {
  if (file === undefined) throw new CommandError('which file? gateway catalog import <file>');
  const text = await readInput(file);
  const { providers } = await send('get /provision/catalog');
  const { models, skipped, unmatched } = convert({ text, name: file, providers: asArray(providers), as: Array.isArray(as) ? as : [] });
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

function convert(input: TableInput): ConvertedTable {
  try {
    return convertTable(input);
  } catch (cause) {
    throw cause instanceof PriceTableError ? new CommandError(cause.message, null, cause) : cause;
  }
}
