import { asArray, asObject, asString, type JsonObject } from '../core/json/narrow.ts';
import { formatUsd } from './format-reports.ts';
import { type Column, createListFormatter } from './table.ts';

/** The maximum number of skipped entries that we name on a line. `--json` shows all of them. */
const maxNamesShown = 5;

const columns: readonly Column[] = [
  ['MODEL', (row) => row.id],
  ...['kind', 'source'],
  ['INPUT', ({ price }) => (price === null ? 'unknown' : formatUsd(asObject(price).input))],
  ['CACHED', ({ price }) => formatUsd(asObject(price).cached_input)],
  ['OUTPUT', ({ price }) => formatUsd(asObject(price).output)],
  ['OTHER', ({ price }) => otherPrices(asObject(price))],
  ['MAX INPUT', (row) => row.max_input_tokens],
  ['MAX OUTPUT', (row) => row.max_output_tokens],
];

export const formatCatalog = createListFormatter('The catalog has no models. Configure a provider in gateway.yaml.', columns);

const units = [
  ['image_input', 'a million image tokens of input'],
  ['per_image', 'an image'],
  ['per_million_characters', 'a million characters'],
  ['per_second', 'a second'],
  ['per_search', 'a search'],
] as const;

function otherPrices(price: JsonObject): string[] {
  const counted = units.flatMap(([name, unit]) => (price[name] === undefined ? [] : [`${formatUsd(price[name])} ${unit}`]));
  const above = Object.entries(asObject(price.above_tokens)).map(([tokens, prices]) => {
    const { input, output } = asObject(prices);
    return `above ${tokens}: ${formatUsd(input)} and ${formatUsd(output)}`;
  });
  return [...counted, ...above];
}

export function formatImport(response: JsonObject): string {
  const added = asStrings(response.added);
  const changed = asStrings(response.changed);
  const kept = asStrings(response.kept_by_file);
  const skipped = asArray(response.skipped).map(asObject);
  const unmatched = typeof response.foreign === 'number' ? response.foreign : 0;
  const lines = [
    `${added.length} added, ${changed.length} changed, ${asStrings(response.unchanged).length} unchanged.`,
    ...added.map((model) => `added    ${model}`),
    ...changed.map((model) => `changed  ${model}`),
    ...(kept.length > 0 ? [`Stored but not used, because rows in gateway.yaml override them: ${kept.join(', ')}`] : []),
    ...(skipped.length > 0 ? [`Skipped ${pluralize(skipped.length, 'entry', 'entries')}:`] : []),
    ...[...Map.groupBy(skipped, ({ reason }) => String(reason))].map(([reason, entries]) => `  ${reason}: ${formatNames(entries)}`),
    ...(unmatched > 0
      ? [
          `${pluralize(unmatched, 'entry belongs to a vendor that matches', 'entries belong to vendors that match')} none of your providers; match one with --as <name in the table>=<provider>.`,
        ]
      : []),
  ];
  return `${lines.join('\n')}\n`;
}

export function formatRemoval(response: JsonObject): string {
  const [removed] = asStrings(response.removed);
  return removed === undefined ? 'No imported row of that model exists.\n' : `Removed the imported row of ${removed}.\n`;
}

function formatNames(entries: readonly JsonObject[]): string {
  const names = entries.slice(0, maxNamesShown).map(({ entry }) => String(entry));
  const more = entries.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function pluralize(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

function asStrings(value: unknown): string[] {
  return asArray(value).flatMap((element) => asString(element) ?? []);
}
