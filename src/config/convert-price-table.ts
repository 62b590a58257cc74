/**
 * Converts the public price table to catalog rows. First finds out which vendor in the table each configured provider
 * belongs to.
 */
import { errorMessage } from '../core/error-messages.ts';
import { asArray, asObject, asString } from '../core/json/narrow.ts';
import { type ConvertedTable, convertPriceTable, type TableProvider } from './price-table.ts';
import { findVendorByName } from './vendors/known-vendors.ts';

/** Thrown if the text isn't a price table, or if a mapping of vendor names is wrong. */
export class PriceTableError extends Error {
  readonly input: 'text' | 'as';

  constructor(input: 'text' | 'as', message: string, cause?: unknown) {
    super(message, { cause });
    this.input = input;
  }
}

export interface TableInput {
  readonly text: string;
  /** The file's name, for error messages. */
  readonly name: string;
  /** The rows of the configured providers. We only read their `name`, `vendor` and `serves`. */
  readonly providers: readonly unknown[];
  /** Mappings in the form `<name in the table>=<provider>`. */
  readonly as: readonly string[];
}

export function convertTable({ text, name, providers, as }: TableInput): ConvertedTable {
  const vendors = tableProviders(providers, as);
  try {
    return convertPriceTable(text, vendors);
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? 'not valid JSON' : errorMessage(cause);
    throw new PriceTableError('text', `${name} is not a price table: ${reason}`, cause);
  }
}

/**
 * Finds out which vendors in the table belong to each provider. A mapping in `as` takes precedence over the vendor's
 * description. If there's neither, we look up the provider's own name.
 */
function tableProviders(providers: readonly unknown[], as: readonly string[]): TableProvider[] {
  const mappings = as.map(parseVendorMapping);
  const rows = providers.map(asObject).map(({ name, vendor, serves }): TableProvider => {
    const provider = asString(name) ?? '';
    const mappedNames = mappings.filter((mapping) => mapping.provider === provider).map(({ tableName }) => tableName);
    const defaultNames = findVendorByName(asString(vendor) ?? '')?.tableNames ?? [provider];
    return {
      name: provider,
      serves: asArray(serves).flatMap((route) => asString(route) ?? []),
      tableNames: mappedNames.length > 0 ? mappedNames : defaultNames,
    };
  });
  for (const { provider } of mappings) {
    if (!rows.some(({ name }) => name === provider)) throw new PriceTableError('as', `there is no provider ${provider}`);
  }
  return rows;
}

function parseVendorMapping(text: string): { tableName: string; provider: string } {
  const match = /^([^=]+)=([^=]+)$/.exec(text);
  if (!match) throw new PriceTableError('as', 'must be <name in the table>=<provider>, for example openai=proxy');
  return { tableName: match[1] ?? '', provider: match[2] ?? '' };
}
