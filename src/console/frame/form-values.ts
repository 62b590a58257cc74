/**
 * Reads the values of submitted forms in the form that the stores expect. We pass invalid values on unchanged, so that
 * the store can quote them in its error message.
 */

/** Returns the trimmed text of a field, or null if it's empty. */
export function textOrNull(form: URLSearchParams, name: string): string | null {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? null : text;
}

/** Parses a number. An empty field is null, and text that isn't a number is returned as it is. */
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
