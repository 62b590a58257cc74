/** Marks texts and secrets, and finds the marks in outputs however they were encoded. */
import { randomBytes } from 'node:crypto';

/** Creates a mark from letters and digits only, so that it is valid in every field and not changed by escaping. */
export function plant(name: string): string {
  return `${name}${randomBytes(8).toString('hex')}`;
}

/**
 * Returns the names of the marks that the output contains, in any case, as base64 at any offset, in hexadecimal or with
 * `\u` escapes.
 */
export function findPlanted(output: string, marks: Readonly<Record<string, string>>): string[] {
  const lowerCase = output.toLowerCase();
  const isIn = (mark: string): boolean =>
    [mark.toLowerCase(), Buffer.from(mark).toString('hex'), escapesOf(mark)].some((form) => lowerCase.includes(form)) ||
    base64FormsOf(mark).some((form) => output.includes(form));
  return Object.keys(marks).filter((name) => isIn(marks[name] ?? ''));
}

/** Drops the characters that depend on the bytes around the mark. */
function base64FormsOf(mark: string): string[] {
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(' '.repeat(offset) + mark).toString('base64');
    return encoded.replace(/=+$/, '').slice(offset === 0 ? 0 : 4, -2);
  });
}

function escapesOf(mark: string): string {
  return [...mark].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
}
