/** What `gateway catalog …` tells, for people. */
import { type JsonObject, listOf, objectOf, textOf } from '../core/json/narrow.ts';
import { money } from './format-reports.ts';
import { formatTable } from './table.ts';

/** How many names a line of skipped entries shows; `--json` has all. */
const namesShown = 5;

export function describeCatalog(rows: readonly JsonObject[]): string {
  if (rows.length === 0) return 'The catalog has no models; configure a provider in gateway.yaml.\n';
  return formatTable(
    ['MODEL', 'KIND', 'SOURCE', 'INPUT', 'CACHED', 'OUTPUT', 'OTHER', 'MAX INPUT', 'MAX OUTPUT'],
    rows.map(({ id, kind, source, price, max_input_tokens, max_output_tokens }) => {
      const { input, cached_input, output } = objectOf(price);
      const prices =
        price === null ? ['unknown', '', '', ''] : [money(input), money(cached_input), money(output), otherPrices(objectOf(price))];
      return [id, kind, source, ...prices, max_input_tokens, max_output_tokens];
    }),
  );
}

const units = [
  ['per_image', 'an image'],
  ['per_million_characters', 'a million characters'],
  ['per_second', 'a second'],
  ['per_search', 'a search'],
] as const;

function otherPrices(price: JsonObject): string[] {
  const counted = units.flatMap(([name, unit]) => (price[name] === undefined ? [] : [`${money(price[name])} ${unit}`]));
  const above = Object.entries(objectOf(price.above_tokens)).map(([tokens, prices]) => {
    const { input, output } = objectOf(prices);
    return `above ${tokens}: ${money(input)} and ${money(output)}`;
  });
  return [...counted, ...above];
}

export function describeImport(answer: JsonObject): string {
  const added = texts(answer.added);
  const changed = texts(answer.changed);
  const kept = texts(answer.kept_by_file);
  const skipped = listOf(answer.skipped).map(objectOf);
  const foreign = typeof answer.foreign === 'number' ? answer.foreign : 0;
  const lines = [
    `${added.length} added, ${changed.length} changed, ${texts(answer.unchanged).length} as they were.`,
    ...added.map((model) => `added    ${model}`),
    ...changed.map((model) => `changed  ${model}`),
    ...(kept.length > 0 ? [`Stored, but gateway.yaml has rows of its own, which stay in force: ${kept.join(', ')}`] : []),
    ...(skipped.length > 0 ? [`Skipped ${count(skipped.length, 'entry', 'entries')}:`] : []),
    ...[...Map.groupBy(skipped, ({ reason }) => String(reason))].map(([reason, entries]) => `  ${reason}: ${namesOf(entries)}`),
    ...(foreign > 0
      ? [
          `${count(foreign, 'entry is', 'entries are')} of vendors that no provider stands for; --as <name in the table>=<provider> names one.`,
        ]
      : []),
  ];
  return `${lines.join('\n')}\n`;
}

export function describeRemoval(answer: JsonObject): string {
  const [removed] = texts(answer.removed);
  return removed === undefined ? 'No imported row of that model was in force.\n' : `The imported row of ${removed} was taken away.\n`;
}

function namesOf(entries: readonly JsonObject[]): string {
  const names = entries.slice(0, namesShown).map(({ entry }) => String(entry));
  const more = entries.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

function texts(value: unknown): string[] {
  return listOf(value).flatMap((element) => textOf(element) ?? []);
}
