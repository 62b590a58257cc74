/**
 * Matches content rules against texts. Expressions run in RE2, which takes linear time no matter what a project writes
 * into them.
 *
 * We work in steps, each of which applies one rule to one piece of a text. The pieces are shorter for slower rules, so
 * no step takes long, and the caller can stop after any of them.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { limitMarks } from '../core/combining-marks.ts';
import { detectors } from './content-classes.ts';
import type { ContentRule } from './content-rule.ts';
import { createExpressionCache, type ExpressionCache } from './expression-cache.ts';
import { ignorable } from './injection-forms.ts';
import { splitText, type TextChunk } from './text-chunks.ts';

/**
 * A request to apply rules to chunks of text. We apply the first rule to all chunks, then the second, and so on. `from`
 * is the position at which the previous request has stopped.
 */
export interface MatchRequest {
  readonly rules: readonly ContentRule[];
  readonly chunks: readonly TextChunk[];
  readonly from: MatchPosition;
}

/**
 * The rule with which matching continues, and how many pieces of text it has been applied to. Every rule splits texts
 * into pieces of its own length, so we count them for each rule.
 */
export interface MatchPosition {
  readonly rule: number;
  readonly piece: number;
}

export interface MatchResult {
  /**
   * The indices of the matching rules, in ascending order. Matching stops after a rule that blocks, so that's always
   * the last one.
   */
  readonly matched: readonly number[];
  /**
   * Where the next request has to continue. Null if all rules have been matched against all chunks, or if a rule
   * blocks.
   */
  readonly next: MatchPosition | null;
}

export type Matcher = (request: MatchRequest, limitMs?: number) => MatchResult;

export const firstPosition: MatchPosition = { rule: 0, piece: 0 };

export function createMatcher(maxBytes: number): Matcher {
  const expressions = createExpressionCache(maxBytes);

  /**
   * We only check the clock after each step, i.e. after applying a rule to a piece of text. So this can exceed
   * `limitMs` by the duration of a step.
   */
  return ({ rules, chunks, from }, limitMs = Number.POSITIVE_INFINITY) => {
    const startedAt = performance.now();
    const forms = chunks.flatMap(normalizedForms);
    const matched: number[] = [];
    for (let index = from.rule; index < rules.length; index += 1) {
      const rule = rules[index];
      if (!rule) break;
      let piece = 0;
      for (const text of piecesOf(forms, rule)) {
        piece += 1;
        if (index === from.rule && piece <= from.piece) continue;
        if (matchesRule(expressions, rule, text)) {
          matched.push(index);
          if (rule.action === 'block') return { matched, next: null };
          break;
        }
        if (performance.now() - startedAt > limitMs) return { matched, next: { rule: index, piece } };
      }
    }
    return { matched, next: null };
  };
}

function matchesRule(expressions: ExpressionCache, { class: ruleClass, expression = '' }: ContentRule, piece: TextChunk): boolean {
  return ruleClass === 'expression' ? expressions.test(toPieceExpression(expression, piece), piece.text) : detectors[ruleClass](piece.text);
}

interface ProgramSize {
  readonly instructions: number;
  /** The total number of ends of character ranges, e.g. 1,400 for `\p{L}`. */
  readonly bounds: number;
}

/** Only sizes are cached here, because estimating costs doesn't need the compiled program. */
const programSizes = new LRUCache<string, ProgramSize>({ max: 5_000, memoMethod: measureProgram });

function measureProgram(expression: string): ProgramSize {
  const re2 = RE2JS.compile(expression);
  const instructions: readonly { readonly runes?: readonly number[] }[] = re2.re2().prog.inst;
  return { instructions: re2.programSize(), bounds: instructions.reduce((sum, { runes = [] }) => sum + runes.length, 0) };
}

/**
 * Returns how many microseconds a rule can take per character. We measured 20 ns per instruction of an expression, and
 * 0.4 µs for all other classes.
 */
export function matchingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  return ruleClass === 'expression' ? 0.02 * programSizes.memo(expression).instructions : 0.4;
}

/**
 * Estimates how many microseconds it takes to compile a rule's expression and to set up its automaton. The factors are
 * measured.
 */
export function compilingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  if (ruleClass !== 'expression') return 0;
  const { instructions, bounds } = programSizes.memo(expression);
  return 3 * instructions + 0.1 * bounds;
}

/**
 * How long a step should take. For slow rules, we split texts into shorter pieces to achieve this. But pieces have a
 * minimum length, so a step with an expression of 1,000 instructions can take 60 ms.
 */
const maxStepMicros = 20_000;
const pieceLengths = { min: 3 * 1024, max: 32 * 1024 };

function* piecesOf(forms: readonly TextChunk[], rule: ContentRule): Generator<TextChunk> {
  const length = Math.max(pieceLengths.min, Math.min(pieceLengths.max, Math.floor(maxStepMicros / matchingCost(rule))));
  for (const form of forms) yield* splitText(form, length);
}

/** An empty character class, which never matches. */
const never = '[^\\x00-\\x{10FFFF}]';
/**
 * Splits an expression into tokens to find its anchors. A `^` or `$` in quoted text, an escape or a character class
 * isn't an anchor, so each of these is a single token.
 */
const tokens = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|[\^$]/g;

/**
 * Adapts an expression to a piece of a text. `^` can only match in the piece that starts the text, and `$` only in the
 * one that ends it, so in all other pieces we replace them with something that never matches. With `(?m)`, they also
 * match at line breaks, and we leave the expression alone. The price is that in lines of more than 3,000 characters,
 * they can match where a piece starts or ends.
 */
function toPieceExpression(expression: string, { isStart, isEnd }: TextChunk): string {
  if ((isStart && isEnd) || /\(\?[a-zA-Z]*m/.test(expression)) return expression;
  return expression.replace(tokens, (token) => {
    const isExcluded = (!isStart && (token === '^' || token === '\\A')) || (!isEnd && (token === '$' || token === '\\z'));
    return isExcluded ? never : token;
  });
}

/**
 * Returns the text and, if it's different, a normalized form that corresponds to what a human sees: full-width letters
 * and digits, dashes and spaces are replaced, and zero-width characters removed. Control characters and lone surrogates
 * are removed as well, because some parsers drop them.
 */
function normalizedForms(chunk: TextChunk): readonly TextChunk[] {
  const { text } = chunk;
  if (!/[^\t\n\r\x20-\x7e]/.test(text)) return [chunk];
  const plain = limitMarks(text.replace(ignorable, '').replace(/[^\P{Cc}\t\n\r]|\p{Cs}/gu, ''))
    .normalize('NFKC')
    .replace(/\p{Pd}/gu, '-')
    .replace(/\p{Zs}/gu, ' ');
  return plain === text ? [chunk] : [chunk, { ...chunk, text: plain }];
}
