/** Creates marks for texts and secrets, and finds them in outputs, no matter how they were encoded. */
import { randomBytes } from 'node:crypto';

/**
 * Creates a mark that only has letters and digits, so that it's valid in every field and escaping doesn't change it.
 */
export function plant(name: string): string {
  return `${name}${randomBytes(8).toString('hex')}`;
}

/**
 * Returns the names of the marks that the output contains. We look for them in upper and lower case, as base64 at any
 * offset, in hexadecimal, and with `\u` escapes.
 */
export function findPlanted(output: string, marks: Readonly<Record<string, string>>): string[] {
  const lowerCase = output.toLowerCase();
  const isIn = (mark: string): boolean =>
    [mark.toLowerCase(), Buffer.from(mark).toString('hex'), escapesOf(mark)].some((form) => lowerCase.includes(form)) ||
    base64FormsOf(mark).some((form) => output.includes(form));
  return Object.keys(marks).filter((name) => isIn(marks[name] ?? ''));
}

/** The characters at both ends also depend on what comes before and after the mark, so leave them out. */
function base64FormsOf(mark: string): string[] {
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.from(' '.repeat(offset) + mark).toString('base64');
    return encoded.replace(/=+$/, '').slice(offset === 0 ? 0 : 4, -2);
  });
}

function escapesOf(mark: string): string {
  return [...mark].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
}
