/** Values of submitted forms as the stores expect them. A wrong value stays as it was typed, so that the store names it in its error. */

/** Null when empty. */
export function textOrNull(form: URLSearchParams, name: string): string | null {
  const text = form.get(name)?.trim() ?? '';
  return text === '' ? null : text;
}

/** Null when empty; the text when it is not a number. */
export function numberOrNull(form: URLSearchParams, name: string): number | string | null {
  const text = textOrNull(form, name);
  if (text === null) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

/** Entries separated by line breaks, commas or spaces. */
export function listOf(form: URLSearchParams, name: string): string[] {
  return (form.get(name) ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
}
