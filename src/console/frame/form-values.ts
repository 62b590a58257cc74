/**
 * Converts form fields to the values that the stores expect. A value that can't be converted is passed on as it is, so
 * that the store can reject it and quote it in the error message.
 */

/** Trims a form field, and returns null if it's empty. */
export function textOrNull(form: URLSearchParams, name: string): string | null {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? null : text;
}

/** Returns null for an empty field, and the text itself if it isn't a number. */
export function numberOrNull(form: URLSearchParams, name: string): number | string | null {
  const text = textOrNull(form, name);
  if (text === null) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

export function listOf(form: URLSearchParams, name: string): string[] {
  return splitList(form.get(name) ?? '');
}

export function splitList(text: string): string[] {
  return text.split(/[\s,]+/).filter((entry) => entry !== '');
}
