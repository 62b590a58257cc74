/**
 * Groups the content rules of a project by place, and evaluates texts: short ones at once, others in a thread.
 *
 * Long texts are evaluated in chunks, between which other calls use the thread. Chunks overlap by `overlap` characters, so that no shorter
 * match is split; `^` and `$` of an expression match at the ends of each chunk.
 */
import type { ContentRule, RuleClass } from './content-rule.ts';
import { matchesRule, matchingCost } from './match-rules.ts';
import { matchInThread } from './rule-thread.ts';

/** Rules for input or output. */
export interface PlaceRules {
  readonly rules: readonly ContentRule[];
  /** At least one of them blocks. */
  readonly blocks: boolean;
  /** Upper bound of the time to evaluate a character, in microseconds. */
  readonly cost: number;
  /** In characters. */
  readonly chunkLength: number;
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

/** Time for which the event loop may be blocked; a turn of the thread costs 0.1 ms. */
const maxInlineMicros = 2_000;
/** Time for which a rule and a chunk may occupy the thread, unless the chunk has the least length. */
const maxThreadMicros = 100_000;
const chunkLengths = { min: 32 * 1024, max: 256 * 1024 };
const overlap = 1024;

export function compileRules(rules: readonly ContentRule[]): CompiledRules {
  const rulesOf = (place: ContentRule['place']): PlaceRules | null => {
    const placed = rules.filter((rule) => rule.place === place);
    if (placed.length === 0) return null;
    return {
      rules: placed,
      blocks: placed.some(({ action }) => action === 'block'),
      cost: placed.reduce((sum, rule) => sum + matchingCost(rule), 0),
      chunkLength: chunkLengthFor(placed),
    };
  };
  return { input: rulesOf('input'), output: rulesOf('output') };
}

/** Evaluates all texts. Each rule is reported once, however often it matches. */
export async function evaluateTexts({ rules, cost, chunkLength }: PlaceRules, texts: readonly string[]): Promise<RuleVerdict> {
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  const matches = length * cost <= maxInlineMicros ? matchesRule : matchInThread;
  const observed = new Set<ContentRule>();
  const verdict = (blockedBy: RuleClass | null): RuleVerdict => {
    return { blockedBy, observed: [...new Set([...observed].map((rule) => rule.class))] };
  };
  for (const batch of batchesOf(texts, chunkLength)) {
    for (const rule of rules) {
      if (observed.has(rule) || !(await matches(rule, batch))) continue;
      if (rule.action === 'block') return verdict(rule.class);
      observed.add(rule);
    }
  }
  return verdict(null);
}

/** Chunks of long texts, and short texts together: a turn of the thread for each string of a request would cost more than its evaluation. */
function* batchesOf(texts: readonly string[], maxLength: number): Generator<readonly string[]> {
  let batch: string[] = [];
  let length = 0;
  for (const text of texts) {
    for (let at = 0; at < text.length; ) {
      const { chunk, next } = chunkAt(text, at, maxLength);
      if (length + chunk.length > maxLength) {
        yield batch;
        batch = [];
        length = 0;
      }
      batch.push(chunk);
      length += chunk.length;
      at = next;
    }
  }
  yield batch;
}

/** The slower a rule, the shorter the chunks, unless an anchor could match at their ends. */
function chunkLengthFor(rules: readonly ContentRule[]): number {
  const { min, max } = chunkLengths;
  if (rules.some(({ expression = '' }) => /[\^$]|\\[Az]/.test(expression))) return max;
  return Math.max(min, Math.min(max, Math.floor(maxThreadMicros / Math.max(...rules.map(matchingCost)))));
}

/** The chunk at `start`, which ends at white space if possible: half a number could be a different one. */
function chunkAt(text: string, start: number, length: number): { chunk: string; next: number } {
  const limit = start + length;
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
