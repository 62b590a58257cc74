/** Assigns the sentences of an error (`name: must not be empty; tiers.a.0: …`) to the fields of a form. */
import { sentence } from './values.ts';

export interface FieldErrors {
  /** The sentences about a field or a part of it; undefined without one. */
  of(name: string): string | undefined;
}

/** `message` as thrown by the stores. */
export function parseFieldErrors(message: string | undefined): FieldErrors {
  const sentences = (message ?? '').split(/; (?=[^\s:;]+: )/).flatMap((sentence) => {
    const match = /^([^\s:;]+): ([\s\S]+)$/.exec(sentence);
    return match ? [{ path: match[1] ?? '', text: match[2] ?? '' }] : [];
  });
  return {
    of(name) {
      const about = sentences.filter(({ path }) => path === name || path.startsWith(`${name}.`));
      if (about.length === 0) return undefined;
      const text = about.map(({ path, text }) => [path.slice(name.length + 1), text].filter((part) => part !== '').join(': ')).join('; ');
      return sentence(plainError(text));
    },
  };
}

/** Replaces default messages of Zod with those that the stores use. */
export function plainError(message: string): string {
  return message
    .replaceAll(/Too small: expected number to be >=?(\S+)/g, 'must be at least $1')
    .replaceAll(/Too big: expected number to be <=?(\S+)/g, 'must be at most $1')
    .replaceAll(/Too small: expected string to have >=1 characters/g, 'must not be empty')
    .replaceAll(/Too big: expected string to have <=(\d+) characters/g, 'must have at most $1 characters')
    .replaceAll(/Invalid input: expected (number|int), received \w+/g, 'must be a number')
    .replaceAll(/Invalid input: expected string, received \w+/g, 'must be a text');
}
