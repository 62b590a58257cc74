/**
 * Detects prompt injections: orders to ignore instructions or to reveal hidden ones, markers that imitate another speaker, invisible characters.
 * Memories are inserted into prompts later, so such text is rejected when it is written.
 *
 * The text is compared in the form in which a model reads it: without invisible characters, in lower case, with similar letters and digits
 * folded to the letters they imitate. Linear in the length of the text.
 */
import { containsHiddenCharacters } from './hidden-characters.ts';
import { foldLookalikes, joinMarked, joinSpaced, normalizeText } from './injection-forms.ts';
import { type Phrase, phrases, spacedOut } from './injection-phrases.ts';

export type InjectionKind = Phrase['kind'] | 'hidden_characters';

/** The kind of injection; null for ordinary text. */
export function findInjection(text: string): InjectionKind | null {
  if (containsHiddenCharacters(text)) return 'hidden_characters';
  const normalized = normalizeText(text);
  const folded = foldLookalikes(normalized);
  for (const form of new Set([normalized, folded, joinMarked(folded)])) {
    const phrase = phrases.find(({ pattern }) => pattern.test(form));
    if (phrase) return phrase.kind;
  }
  return joinSpaced(folded).some((run) => spacedOut.test(run)) ? 'override' : null;
}
