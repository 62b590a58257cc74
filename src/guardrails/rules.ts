/**
 * Compiles and evaluates the content rules of a project. Expressions of projects run in RE2, in time linear in the text.
 *
 * Long texts are evaluated in chunks, and the event loop runs between them: fifty rules over a body of 32 MiB take seconds. Chunks overlap by
 * `overlap` characters, so that no shorter match is split; `^` and `$` of an expression match at the ends of each chunk.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { detectors } from './content-classes.ts';
import type { ContentRule, RuleClass } from './content-rule.ts';
import { ignorable } from './injection-forms.ts';

interface CompiledRule {
  readonly class: RuleClass;
  readonly action: ContentRule['action'];
  readonly matches: (text: string) => boolean;
}

/** Rules for input or output. */
export interface PlaceRules {
  readonly rules: readonly CompiledRule[];
  /** At least one of them blocks. */
  readonly blocks: boolean;
}

/** Null without rules: texts are not evaluated then. */
export interface CompiledRules {
  readonly input: PlaceRules | null;
  readonly output: PlaceRules | null;
}

export interface RuleVerdict {
  /** Class of the first rule that blocks the text; null when none does. */
  readonly blockedBy: RuleClass | null;
  /** Classes of the observing rules that matched. */
  readonly observed: readonly RuleClass[];
}

/** Compiled expressions to keep: more than the projects of a busy process use. */
const maxCompiled = 1_000;

/** Caches compiled expressions: the rows of projects are reloaded every few seconds. */
export function createRuleCompiler(): (rules: readonly ContentRule[]) => CompiledRules {
  const compiled = new LRUCache<string, RE2JS>({ max: maxCompiled, memoMethod: (expression) => RE2JS.compile(expression) });

  const finderOf = ({ class: ruleClass, expression = '' }: ContentRule): CompiledRule['matches'] => {
    if (ruleClass !== 'expression') return detectors[ruleClass];
    const pattern = compiled.memo(expression);
    return (text) => pattern.test(text);
  };

  const rulesOf = (rules: readonly ContentRule[], place: ContentRule['place']): PlaceRules | null => {
    const ready = rules.filter((rule) => rule.place === place).map((rule) => ({ ...rule, matches: finderOf(rule) }));
    return ready.length === 0 ? null : { rules: ready, blocks: ready.some(({ action }) => action === 'block') };
  };
  return (rules) => ({ input: rulesOf(rules, 'input'), output: rulesOf(rules, 'output') });
}

/** Evaluates all texts. Each rule is reported once, however often it matches. */
export async function evaluateTexts({ rules }: PlaceRules, texts: readonly string[]): Promise<RuleVerdict> {
  const observed = new Set<RuleClass>();
  let remaining = [...rules];
  let read = 0;
  for (const text of texts) {
    for (let at = 0; at < text.length; ) {
      const { chunk, next } = chunkAt(text, at);
      const forms = normalizedForms(chunk);
      const matched = remaining.filter(({ matches }) => forms.some(matches));
      const block = matched.find(({ action }) => action === 'block');
      if (block) return { blockedBy: block.class, observed: [...observed] };
      for (const rule of matched) observed.add(rule.class);
      if (matched.length > 0) remaining = remaining.filter((rule) => !matched.includes(rule));
      at = next;
      read += chunk.length;
      if (read < chunkLength) continue;
      read = 0;
      await turn();
    }
  }
  return { blockedBy: null, observed: [...observed] };
}

/** The text unchanged, and with full-width letters and digits, dashes, spaces and zero-width characters normalized. */
function normalizedForms(chunk: string): readonly string[] {
  if (!/[^\p{ASCII}]/u.test(chunk)) return [chunk];
  const plain = chunk
    .replace(ignorable, '')
    .normalize('NFKC')
    .replace(/\p{Pd}/gu, '-')
    .replace(/\p{Zs}/gu, ' ');
  return plain === chunk ? [chunk] : [chunk, plain];
}

const chunkLength = 256 * 1024;
const overlap = 1024;

/** The chunk at `start`, which ends at white space if possible: half a number could be a different one. */
function chunkAt(text: string, start: number): { chunk: string; next: number } {
  const limit = start + chunkLength;
  if (limit >= text.length) return { chunk: text.slice(start), next: text.length };
  const end = spaceBefore(text, limit);
  return { chunk: text.slice(start, end), next: spaceBefore(text, end - overlap) };
}

function spaceBefore(text: string, position: number): number {
  for (let at = position; at > position - overlap; at -= 1) {
    if (/\s/.test(text.charAt(at))) return at;
  }
  return position;
}
