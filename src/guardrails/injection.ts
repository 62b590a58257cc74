/**
 * Detects prompt injections. These are commands to ignore instructions or to reveal hidden ones, markers that imitate
 * another speaker, and invisible characters. We reject such text when a memory is written, because we insert memories
 * into prompts later.
 *
 * We compare the text in the form in which a model reads it. Invisible characters are removed, letters are in lower
 * case, and characters that imitate a letter are replaced by it. Takes linear time.
 */
import { containsHiddenCharacters } from './hidden-characters.ts';
import { foldLookalikes, joinMarked, joinSpaced, normalizeText } from './injection-forms.ts';
import { type Phrase, phrases, spacedOut } from './injection-phrases.ts';

export type InjectionKind = Phrase['kind'] | 'hidden_characters';

/** Returns the kind of prompt injection in a text, or null if there's none. */
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
