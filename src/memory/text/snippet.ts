/** The part of a text that a search shows: around the first word of the query that stands in it, else its beginning. */

const longestSnippet = 280;
const lead = 60;

export function cutSnippet(text: string, query: string): string {
  const flat = text.replaceAll(/\s+/g, ' ').trim();
  if (flat.length <= longestSnippet) return flat;
  const from = startOf(flat, query);
  const end = from + longestSnippet >= flat.length ? flat.length : wordEnd(flat, from, from + longestSnippet);
  return `${from > 0 ? '…' : ''}${flat.slice(from, end).trim()}${end < flat.length ? '…' : ''}`.toWellFormed();
}

/** The longest words of a query say most. */
function startOf(flat: string, query: string): number {
  const lower = flat.toLowerCase();
  const words = query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
  const places = [...words].sort((a, b) => b.length - a.length).map((word) => lower.indexOf(word));
  const place = places.find((found) => found >= 0) ?? 0;
  if (place <= lead) return 0;
  const from = Math.min(place - lead, flat.length - longestSnippet);
  const space = flat.indexOf(' ', from);
  return space >= 0 && space < place ? space + 1 : from;
}

function wordEnd(flat: string, from: number, limit: number): number {
  const space = flat.lastIndexOf(' ', limit);
  return space > from + longestSnippet / 2 ? space : limit;
}
