/** Marks texts and secrets, and finds the marks again in outputs, in whatever form they were written. */
import { randomBytes } from 'node:crypto';

/** A new mark: letters and digits, so that it is valid in every field and no escaping changes it. */
export function plant(name: string): string {
  return `${name}${randomBytes(8).toString('hex')}`;
}

/** The names of the marks that the output contains: as they are, in any case, as base64 at any offset, in hexadecimal or as `\u` escapes. */
export function findPlanted(output: string, marks: Readonly<Record<string, string>>): string[] {
  const lowerCase = output.toLowerCase();
  const isIn = (mark: string): boolean =>
    [mark.toLowerCase(), Buffer.from(mark).toString('hex'), escapesOf(mark)].some((form) => lowerCase.includes(form)) ||
    base64FormsOf(mark).some((form) => output.includes(form));
  return Object.keys(marks).filter((name) => isIn(marks[name] ?? ''));
}

/** Without the characters that depend on the bytes around the mark. */
function base64FormsOf(mark: string): string[] {
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(' '.repeat(offset) + mark).toString('base64');
    return encoded.replace(/=+$/, '').slice(offset === 0 ? 0 : 4, -2);
  });
}

function escapesOf(mark: string): string {
  return [...mark].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
}
