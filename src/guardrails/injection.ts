/**
 * Tells whether a text looks like a prompt injection: an order to drop instructions, a wish to see hidden ones, marks that pretend to
 * be another speaker, or characters that nobody sees. What is stored as memory goes into prompts later, so such text is refused when it is
 * written (lessons 43).
 *
 * A text is read as a model would read it: without invisible characters, in one case, with look-alike letters and digits taken for the
 * letters they imitate. Work is linear in the length of the text.
 */
import { containsHiddenCharacters } from './hidden-characters.ts';
import { foldLookalikes, joinMarked, joinSpaced, normalizeText } from './injection-forms.ts';
import { type Phrase, phrases, spacedOut } from './injection-phrases.ts';

export type InjectionKind = Phrase['kind'] | 'hidden_characters';

/** What the text looks like; null for ordinary text. */
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
