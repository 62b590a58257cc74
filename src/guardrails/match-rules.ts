/** Matches a content rule with a text. Expressions of projects run in RE2, in time linear in the text. */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { detectors } from './content-classes.ts';
import type { ContentRule } from './content-rule.ts';
import { ignorable } from './injection-forms.ts';

/** Compiled expressions, kept for more projects than a busy process serves: rows of projects are reloaded every few seconds. */
const compiled = new LRUCache<string, RE2JS>({ max: 1_000, memoMethod: (expression) => RE2JS.compile(expression) });

/** Whether the rule matches one of the texts as it is, or as a reader takes its letters. */
export function matchesRule({ class: ruleClass, expression = '' }: ContentRule, texts: readonly string[]): boolean {
  const isMatch = ruleClass === 'expression' ? (form: string) => compiled.memo(expression).test(form) : detectors[ruleClass];
  return texts.some((text) => normalizedForms(text).some((form) => isMatch(form)));
}

/** Microseconds per character, at most: 15 ns per instruction of an expression, 0.4 µs for a class (measured). */
export function matchingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  return ruleClass === 'expression' ? 0.015 * compiled.memo(expression).programSize() : 0.4;
}

/** The text unchanged, and with full-width letters and digits, dashes, spaces and zero-width characters normalized. */
function normalizedForms(text: string): readonly string[] {
  if (!/[^\p{ASCII}]/u.test(text)) return [text];
  const plain = text
    .replace(ignorable, '')
    .normalize('NFKC')
    .replace(/\p{Pd}/gu, '-')
    .replace(/\p{Zs}/gu, ' ');
  return plain === text ? [text] : [text, plain];
}
