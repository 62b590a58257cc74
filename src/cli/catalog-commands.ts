/**
 * Implements the `gateway catalog` commands that import rows from the public price table into the running service, or
 * remove them again.
 */
import { convertTable, PriceTableError, type TableInput } from '../config/convert-price-table.ts';
import { asArray, type JsonObject } from '../core/json/narrow.ts';
import { CommandError, type Invocation } from './command.ts';
import { readInput } from './options.ts';

/**
 * Imports a price table. Extends the service's response with the entries that we didn't send, the reasons for that, and
 * the number of entries for vendors that no provider uses.
 */
export async function importCatalog({ send, args: { file = '' }, options }: Invocation): Promise<JsonObject> {
  const text = await readInput(file);
  const { providers } = await send('get /provision/catalog');
  const { models, skipped, unmatched } = convert({
    text,
    name: file,
    providers: asArray(providers),
    as: asArray(options.as).map(String),
  });
  if (Object.keys(models).length === 0 && skipped.length === 0) {
    throw new CommandError(
      'none of your providers matches a vendor in this table; match one with --as <name in the table>=<provider>, for example --as openai=proxy',
    );
  }
  const receipt = await send('put /provision/catalog', { models });
  return { ...receipt, skipped, foreign: unmatched };
}

function convert(input: TableInput): ReturnType<typeof convertTable> {
  try {
    return convertTable(input);
  } catch (cause) {
    if (!(cause instanceof PriceTableError)) throw cause;
    throw new CommandError(cause.input === 'as' ? `--as: ${cause.message}` : cause.message, null, cause);
  }
}

/** Removes an imported row. A built-in row for the same model becomes active again. */
export function removeImportedRow({ send, args: { model = '' } }: Invocation): Promise<JsonObject> {
  return send('put /provision/catalog', { models: { [model]: null } });
}
