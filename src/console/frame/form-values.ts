/**
 * Reads values from submitted forms, in the format that the stores expect. We don't change invalid values, so that the
 * store's error message can quote them.
 */

/** Returns the trimmed text of a field, or null if it's empty. */
export function textOrNull(form: URLSearchParams, name: string): string | null {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? null : text;
}

/** Parses a number. An empty field is null. If the text isn't a number, we return it as it is. */
export function numberOrNull(form: URLSearchParams, name: string): number | string | null {
  const text = textOrNull(form, name);
  if (text === null) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/** Splits a field at line breaks, commas and spaces. */
export function listOf(form: URLSearchParams, name: string): string[] {
  return splitList(form.get(name) ?? '');
}

export function splitList(text: string): string[] {
  return text.split(/[\s,]+/).filter((entry) => entry !== '');
}
