/**
 * The content rules of a project, ready to be asked. Own expressions run in RE2's way: in time linear in the text, whatever they are.
 *
 * Very long texts are read in pieces, and others get their turn between pieces: a body of 32 MiB under fifty rules is seconds of work. Pieces
 * overlap by `overlap` characters, so that nothing shorter is cut in two; for an expression each piece begins and ends like a text.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { RE2JS } from 're2js';
import { detectors } from './content-classes.ts';
import type { ContentRule, RuleClass } from './content-rule.ts';

interface CompiledRule {
  readonly class: RuleClass;
  readonly action: ContentRule['action'];
  readonly matches: (text: string) => boolean;
}

/** Rules for one place. */
export interface PlaceRules {
  readonly rules: readonly CompiledRule[];
  /** One of them blocks. */
  readonly blocks: boolean;
}

/** Null where a project has no rule: then there is nothing to do, and no text is read. */
export interface CompiledRules {
  readonly input: PlaceRules | null;
  readonly output: PlaceRules | null;
}

export interface RuleVerdict {
  /** Class of the first rule that blocks the text; null: it passes. */
  readonly blockedBy: RuleClass | null;
  /** Classes of rules that only observe, and matched. */
  readonly observed: readonly RuleClass[];
}

/** More than the projects of a busy process write. */
const maxCompiled = 1_000;

/** Expressions are compiled once, as long as they are in use: a project's row is read again every few seconds. */
export function createRuleCompiler(): (rules: readonly ContentRule[]) => CompiledRules {
  const compiled = new Map<string, RE2JS>();

  const compile = (expression: string): RE2JS => {
    const known = compiled.get(expression) ?? RE2JS.compile(expression);
    compiled.delete(expression);
    compiled.set(expression, known);
    for (const oldest of compiled.keys()) {
      if (compiled.size <= maxCompiled) break;
      compiled.delete(oldest);
    }
    return known;
  };

  const finderOf = ({ class: ruleClass, expression = '' }: ContentRule): CompiledRule['matches'] => {
    if (ruleClass !== 'expression') return detectors[ruleClass];
    const pattern = compile(expression);
    return (text) => pattern.test(text);
  };

  const rulesOf = (rules: readonly ContentRule[], place: ContentRule['place']): PlaceRules | null => {
    const ready = rules.filter((rule) => rule.place === place).map((rule) => ({ ...rule, matches: finderOf(rule) }));
    return ready.length === 0 ? null : { rules: ready, blocks: ready.some(({ action }) => action === 'block') };
  };
  return (rules) => ({ input: rulesOf(rules, 'input'), output: rulesOf(rules, 'output') });
}

/** Each rule counts once, however often it matches. */
export async function evaluateTexts({ rules }: PlaceRules, texts: readonly string[]): Promise<RuleVerdict> {
  const observed = new Set<RuleClass>();
  let waiting = [...rules];
  let read = 0;
  for (const text of texts) {
    for (let at = 0; at < text.length; ) {
      const { piece: chunk, next } = chunkAt(text, at);
      const forms = normalizedForms(chunk);
      const matched = waiting.filter(({ matches }) => forms.some(matches));
      const block = matched.find(({ action }) => action === 'block');
      if (block) return { blockedBy: block.class, observed: [...observed] };
      for (const rule of matched) observed.add(rule.class);
      if (matched.length > 0) waiting = waiting.filter((rule) => !matched.includes(rule));
      at = next;
      read += chunk.length;
      if (read < chunkLength) continue;
      read = 0;
      await turn();
    }
  }
  return { blockedBy: null, observed: [...observed] };
}

const ignorable = /\p{Default_Ignorable_Code_Point}+/gu;

/** As it stands, and as a reader takes it: wide letters and digits, other dashes and spaces, what has no width. */
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

/** Cut at white space where there is some near: a number that is cut could become another. */
function chunkAt(text: string, start: number): { piece: string; next: number } {
  const limit = start + chunkLength;
  if (limit >= text.length) return { piece: text.slice(start), next: text.length };
  const end = spaceBefore(text, limit);
  return { piece: text.slice(start, end), next: spaceBefore(text, end - overlap) };
}

function spaceBefore(text: string, position: number): number {
  for (let at = position; at > position - overlap; at -= 1) {
    if (/\s/.test(text.charAt(at))) return at;
  }
  return position;
}
