/**
 * Detects prompt injections, i.e. orders to ignore instructions or to reveal hidden ones, markers that imitate another
 * speaker, and invisible characters. We insert memories into prompts later, so we reject such text when it's written.
 *
 * We compare the text in the form in which a model reads it. Invisible characters are removed, letters are in lower
 * case, and similar letters and digits are folded to the letters that they imitate. Takes linear time in the length of
 * the text.
 */
import { containsHiddenCharacters } from './hidden-characters.ts';
import { foldLookalikes, joinMarked, joinSpaced, normalizeText } from './injection-forms.ts';
import { type Phrase, phrases, spacedOut } from './injection-phrases.ts';

export type InjectionKind = Phrase['kind'] | 'hidden_characters';

/** Returns the kind of injection, or null for ordinary text. */
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
