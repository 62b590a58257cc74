/*
 * A regular expression such as `/ +$/` takes quadratic time if the text has many spaces in the middle, because it
 * starts again at each of them.
 */

/** Removes `characters` from both ends of a text. */
export function trim(text: string, characters: string): string {
  let start = 0;
  while (start < text.length && characters.includes(text.charAt(start))) start += 1;
  return trimEnd(text.slice(start), characters);
}

/** Removes `characters` from the end of a text. */
export function trimEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}
