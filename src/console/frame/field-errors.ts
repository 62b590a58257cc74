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
      return sentence(text);
    },
  };
}
