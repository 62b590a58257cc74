/**
 * Matches content rules against texts. The expressions of projects run in RE2, which takes linear time in the length
 * of the text.
 *
 * We split the work into steps, each of which applies one rule to one piece of text. Rules that can be slow get
 * shorter pieces. This keeps every step short, so that the caller can interrupt the work after any of them.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { limitMarks } from '../core/combining-marks.ts';
import { detectors } from './content-classes.ts';
import type { ContentRule } from './content-rule.ts';
import { createExpressionCache, type ExpressionCache } from './expression-cache.ts';
import { ignorable } from './injection-forms.ts';
import { splitText, type TextChunk } from './text-chunks.ts';

/** Applies each rule to all chunks, beginning at the position `from`. */
export interface MatchRequest {
  readonly rules: readonly ContentRule[];
  readonly chunks: readonly TextChunk[];
  readonly from: MatchPosition;
}

/**
 * A rule's index and a piece's index. The piece length depends on the rule, so `piece` only makes sense together with
 * `rule`.
 */
export interface MatchPosition {
  readonly rule: number;
  readonly piece: number;
}

export interface MatchResult {
  /** Indices of the rules that match, in ascending order. The list ends with the first rule that blocks. */
  readonly matched: readonly number[];
  /** The position at which to continue, or null if everything has been matched. */
  readonly next: MatchPosition | null;
}

export type Matcher = (request: MatchRequest, limitMs?: number) => MatchResult;

export const firstPosition: MatchPosition = { rule: 0, piece: 0 };

/** The matcher caches up to `maxBytes` of compiled expressions. */
export function createMatcher(maxBytes: number): Matcher {
  const expressions = createExpressionCache(maxBytes);

  /** We only check the time after a step, so a call can take a little longer than `limitMs`. */
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
  /** Counts the bounds of the character ranges in all instructions, e.g. 1,400 for `\p{L}`. */
  readonly bounds: number;
}

/** We cache only the sizes of programs, because the cost estimates don't need the programs themselves. */
const programSizes = new LRUCache<string, ProgramSize>({ max: 5_000, memoMethod: measureProgram });

function measureProgram(expression: string): ProgramSize {
  const re2 = RE2JS.compile(expression);
  const instructions: readonly { readonly runes?: readonly number[] }[] = re2.re2().prog.inst;
  return { instructions: re2.programSize(), bounds: instructions.reduce((sum, { runes = [] }) => sum + runes.length, 0) };
}

/**
 * Returns an upper bound for the time per character in microseconds. We measured 20 ns per instruction of an expression
 * and 0.4 µs for the other rule classes.
 */
export function matchingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  return ruleClass === 'expression' ? 0.02 * programSizes.memo(expression).instructions : 0.4;
}

/**
 * Returns the time that it takes to compile a rule's expression and its automaton, before it reads any text, in
 * microseconds (measured).
 */
export function compilingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  if (ruleClass !== 'expression') return 0;
  const { instructions, bounds } = programSizes.memo(expression);
  return 3 * instructions + 0.1 * bounds;
}

/**
 * We choose the piece length so that a step takes at most this long. Only pieces of the minimum length can take
 * longer, e.g. 60 ms for an expression with 1,000 instructions.
 */
const maxStepMicros = 20_000;
const pieceLengths = { min: 3 * 1024, max: 32 * 1024 };

function* piecesOf(forms: readonly TextChunk[], rule: ContentRule): Generator<TextChunk> {
  const length = Math.max(pieceLengths.min, Math.min(pieceLengths.max, Math.floor(maxStepMicros / matchingCost(rule))));
  for (const form of forms) yield* splitText(form, length);
}

/** This character class is empty, so it never matches. */
const never = '[^\\x00-\\x{10FFFF}]';
/**
 * Finds anchors. Also consumes quoted text, escapes and character classes, so that we don't mistake a `^` or `$` in
 * them for an anchor.
 */
const tokens = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|[\^$]/g;

/**
 * Adapts an expression to a piece of text. If the piece starts in the middle of the text, `^` doesn't match there,
 * and if it ends in the middle, neither does `$`. In `(?m)` mode, where both match at line breaks, we don't change
 * the expression. In lines of more than 3,000 characters they can then also match at the edges of pieces.
 */
function toPieceExpression(expression: string, { isStart, isEnd }: TextChunk): string {
  if ((isStart && isEnd) || /\(\?[a-zA-Z]*m/.test(expression)) return expression;
  return expression.replace(tokens, (token) => {
    const isExcluded = (!isStart && (token === '^' || token === '\\A')) || (!isEnd && (token === '$' || token === '\\z'));
    return isExcluded ? never : token;
  });
}

/**
 * Returns the text unchanged and, if that differs, the text as a human would read it. For the second form we
 * normalize full-width letters and digits, dashes and spaces, and remove zero-width characters. We also remove
 * control characters and lone surrogates, because some parsers drop them.
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
