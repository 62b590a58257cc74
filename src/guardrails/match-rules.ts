/**
 * Matches content rules against texts. The projects' expressions run in RE2, which takes linear time.
 *
 * We split the work into steps. Each step applies one rule to a piece of text, which is shorter for rules that can be
 * slow. So every step is short, and the caller can interrupt the work after any of them.
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
 * A request to apply rules to chunks of text. The rules are applied in order, each of them to all chunks. `from` is the
 * position to start at.
 */
export interface MatchRequest {
  readonly rules: readonly ContentRule[];
  readonly chunks: readonly TextChunk[];
  readonly from: MatchPosition;
}

/**
 * Where a step starts, as indices. Pieces have a different length for each rule, so `piece` means nothing without
 * `rule`.
 */
export interface MatchPosition {
  readonly rule: number;
  readonly piece: number;
}

export interface MatchResult {
  /** The indices of the rules that match, in ascending order. We stop after the first rule that blocks. */
  readonly matched: readonly number[];
  /** The position for the next step, or null if all rules have been applied to all texts. */
  readonly next: MatchPosition | null;
}

export type Matcher = (request: MatchRequest, limitMs?: number) => MatchResult;

export const firstPosition: MatchPosition = { rule: 0, piece: 0 };

/** Creates a matcher whose cache of compiled expressions is limited to `maxBytes`. */
export function createMatcher(maxBytes: number): Matcher {
  const expressions = createExpressionCache(maxBytes);

  /** We only check the time after each step, so this can take a little longer than `limitMs`. */
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
  /** How many bounds the character ranges have in total, e.g. 1,400 for `\p{L}`. */
  readonly bounds: number;
}

/** A cost estimate only needs the size of a program, so that's all we cache. */
const programSizes = new LRUCache<string, ProgramSize>({ max: 5_000, memoMethod: measureProgram });

function measureProgram(expression: string): ProgramSize {
  const re2 = RE2JS.compile(expression);
  const instructions: readonly { readonly runes?: readonly number[] }[] = re2.re2().prog.inst;
  return { instructions: re2.programSize(), bounds: instructions.reduce((sum, { runes = [] }) => sum + runes.length, 0) };
}

/**
 * Returns an upper bound for the time per character, in microseconds. We measured 20 ns per instruction of an
 * expression, and 0.4 µs for the other classes.
 */
export function matchingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  return ruleClass === 'expression' ? 0.02 * programSizes.memo(expression).instructions : 0.4;
}

/**
 * Estimates how many microseconds it takes to compile a rule's expression and its automaton, before any text is read.
 * The factors were measured.
 */
export function compilingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  if (ruleClass !== 'expression') return 0;
  const { instructions, bounds } = programSizes.memo(expression);
  return 3 * instructions + 0.1 * bounds;
}

/**
 * The intended duration of a step, from which we calculate the length of a piece. A piece of the minimum length can
 * take longer, e.g. 60 ms for an expression with 1,000 instructions.
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
 * Splits an expression into tokens in order to find its anchors. Quoted text, escapes and character classes are tokens
 * too, because a `^` or `$` inside them isn't an anchor.
 */
const tokens = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|[\^$]/g;

/**
 * Adapts an expression to a piece of text. If the piece doesn't start at the beginning of the text, `^` can't match
 * there, and if it doesn't end at the end, neither can `$`. With `(?m)`, both match at line breaks, so we don't change
 * the expression. In lines with more than 3,000 characters, they can then also match where a piece starts or ends.
 */
function toPieceExpression(expression: string, { isStart, isEnd }: TextChunk): string {
  if ((isStart && isEnd) || /\(\?[a-zA-Z]*m/.test(expression)) return expression;
  return expression.replace(tokens, (token) => {
    const isExcluded = (!isStart && (token === '^' || token === '\\A')) || (!isEnd && (token === '$' || token === '\\z'));
    return isExcluded ? never : token;
  });
}

/**
 * Returns the text unchanged, and as a human would read it if that's different. For the second form we normalize
 * full-width letters and digits, dashes and spaces, and remove zero-width characters. We also remove control characters
 * and lone surrogates, because some parsers drop them.
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
