const maxSnippetLength = 280;
const leadLength = 60;

/** Returns the text around the first occurrence of a query word, or else the beginning of the text. */
export function cutSnippet(text: string, query: string): string {
  const flat = text.replaceAll(/\s+/g, ' ').trim();
  if (flat.length <= maxSnippetLength) return flat;
  const from = findStart(flat, query);
  const end = from + maxSnippetLength >= flat.length ? flat.length : findEnd(flat, from, from + maxSnippetLength);
  return `${from > 0 ? '…' : ''}${flat.slice(from, end).trim()}${end < flat.length ? '…' : ''}`.toWellFormed();
}

/**
 * Returns where the snippet should start. Looks for the longest words of the query first, because they're the most
 * specific.
 */
function findStart(flat: string, query: string): number {
  const lower = flat.toLowerCase();
  const terms = query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
  const positions = [...terms].sort((a, b) => b.length - a.length).map((word) => lower.indexOf(word));
  const position = positions.find((index) => index >= 0) ?? 0;
  if (position <= leadLength) return 0;
  const from = Math.min(position - leadLength, flat.length - maxSnippetLength);
  const space = flat.indexOf(' ', from);
  return space >= 0 && space < position ? space + 1 : from;
}

function findEnd(flat: string, from: number, limit: number): number {
  const space = flat.lastIndexOf(' ', limit);
  return space > from + maxSnippetLength / 2 ? space : limit;
}
