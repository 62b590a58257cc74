/** Finds the name that a caller probably meant, for the hint of `no_route`. */
import { splitModelId } from './catalog.ts';

/**
 * We don't compare longer names, because the time grows with the square of the length. Few models have a name this
 * long.
 */
const maxLength = 64;

/**
 * Returns the usable name whose model needs the fewest edits, with or without its version. Returns the first one if
 * several are equally close, and null if each differs in more than half of the characters. This takes 1 to 3 ms for the
 * 3,000 names of an imported catalog, and 30 ms if they're all very similar (measured).
 */
export function findNearestName(asked: string, names: Iterable<string>, isUsable: (name: string) => boolean): string | null {
  if (asked.length > maxLength) return null;
  const wanted = asked.toLowerCase();
  const wantedModel = withoutProvider(wanted);
  const wantedLine = withoutVersion(wantedModel);
  let nearest: string | null = null;
  let fewest = Math.floor(wantedModel.length / 2) + 1;
  for (const name of names) {
    const model = withoutProvider(name.toLowerCase());
    const line = withoutVersion(model);
    let edits = countEdits(wantedModel, model, fewest);
    // The part before the slash may belong to the model, as in `meta-llama/llama-3.3-70b`.
    if (wanted !== wantedModel) edits = Math.min(edits, countEdits(wanted, model, edits));
    if (line !== model || wantedLine !== wantedModel) edits = Math.min(edits, 1 + countEdits(wantedLine, line, edits - 1));
    if (edits >= fewest || !isUsable(name)) continue;
    nearest = name;
    fewest = edits;
  }
  return nearest;
}

function withoutProvider(name: string): string {
  return splitModelId(name)?.model ?? name;
}

/**
 * Turns e.g. `claude-haiku-4-5-20251001` into `claude-haiku-4-5`, so that another version is closer than another model.
 */
function withoutVersion(name: string): string {
  return name.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '');
}

/**
 * Counts the characters to insert, delete or replace (Levenshtein distance). Returns `limit` if there are at least that
 * many.
 */
function countEdits(left: string, right: string, limit: number): number {
  if (limit <= 0 || Math.abs(left.length - right.length) >= limit) return Math.max(0, limit);
  let above = new Uint8Array(right.length + 1);
  let current = new Uint8Array(right.length + 1);
  for (let column = 0; column <= right.length; column += 1) above[column] = column;
  for (let row = 1; row <= left.length; row += 1) {
    // Cells further from the diagonal need at least `limit` edits.
    const first = Math.max(1, row - limit);
    const last = Math.min(right.length, row + limit);
    const code = left.charCodeAt(row - 1);
    let before = first === 1 ? row : limit;
    let fewestOfRow = before;
    current[first - 1] = before;
    for (let column = first; column <= last; column += 1) {
      const replaced = (above[column - 1] ?? limit) + (code === right.charCodeAt(column - 1) ? 0 : 1);
      before = Math.min(replaced, (column === row + limit ? limit : (above[column] ?? limit)) + 1, before + 1);
      current[column] = before;
      if (before < fewestOfRow) fewestOfRow = before;
    }
    if (fewestOfRow >= limit) return limit;
    [above, current] = [current, above];
  }
  return Math.min(limit, above[right.length] ?? limit);
}
