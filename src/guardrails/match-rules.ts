/**
 * Matches content rules with texts. Expressions of projects run in RE2, in time linear in the text.
 *
 * The work is done in steps, a rule on a piece of a text. The slower an expression may be, the shorter its pieces, so that no step takes long, and
 * the work can be interrupted after each of them.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { limitMarks } from '../core/combining-marks.ts';
import { detectors } from './content-classes.ts';
import type { ContentRule } from './content-rule.ts';
import { createExpressionCache, type ExpressionCache } from './expression-cache.ts';
import { ignorable } from './injection-forms.ts';
import { splitText, type TextChunk } from './text-chunks.ts';

/** Rules and chunks to match, each rule with all chunks, from a position on. */
export interface MatchRequest {
  readonly rules: readonly ContentRule[];
  readonly chunks: readonly TextChunk[];
  readonly from: MatchPosition;
}

/** Indices of a rule, and of a piece of the texts as that rule reads them. */
export interface MatchPosition {
  readonly rule: number;
  readonly piece: number;
}

export interface MatchResult {
  /** Indices of the rules that match, in order. Ends with the first that blocks. */
  readonly matched: readonly number[];
  /** Where to continue; null when all is done. */
  readonly next: MatchPosition | null;
}

export type Matcher = (request: MatchRequest, limitMs?: number) => MatchResult;

export const firstPosition: MatchPosition = { rule: 0, piece: 0 };

/** Keeps at most `maxBytes` of compiled expressions. */
export function createMatcher(maxBytes: number): Matcher {
  const expressions = createExpressionCache(maxBytes);

  /** Stops after the first step that ends later than `limitMs`. */
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
  /** Bounds of the character ranges of all instructions: `\p{L}` has 1,400. */
  readonly bounds: number;
}

/** Sizes of programs, for estimates. */
const programSizes = new LRUCache<string, ProgramSize>({ max: 5_000, memoMethod: measureProgram });

function measureProgram(expression: string): ProgramSize {
  const re2 = RE2JS.compile(expression);
  const instructions: readonly { readonly runes?: readonly number[] }[] = re2.re2().prog.inst;
  return { instructions: re2.programSize(), bounds: instructions.reduce((sum, { runes = [] }) => sum + runes.length, 0) };
}

/** Microseconds per character, at most: 20 ns per instruction of an expression, 0.4 µs for a class (measured). */
export function matchingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  return ruleClass === 'expression' ? 0.02 * programSizes.memo(expression).instructions : 0.4;
}

/** Microseconds to compile the expression of a rule with its automaton, before its first character (measured). */
export function compilingCost({ class: ruleClass, expression = '' }: ContentRule): number {
  if (ruleClass !== 'expression') return 0;
  const { instructions, bounds } = programSizes.memo(expression);
  return 3 * instructions + 0.1 * bounds;
}

/** The longest time of a step, unless the piece has the least length: with 1,000 instructions it then takes 60 ms. */
const maxStepMicros = 20_000;
const pieceLengths = { min: 3 * 1024, max: 32 * 1024 };

function* piecesOf(forms: readonly TextChunk[], rule: ContentRule): Generator<TextChunk> {
  const length = Math.max(pieceLengths.min, Math.min(pieceLengths.max, Math.floor(maxStepMicros / matchingCost(rule))));
  for (const form of forms) yield* splitText(form, length);
}

/** An empty class of characters, which matches nothing. */
const never = '[^\\x00-\\x{10FFFF}]';
/** Quoted text, escapes, classes of characters, anchors. */
const tokens = /\\Q[\s\S]*?(?:\\E|$)|\\[pPx]\{[^}]*\}|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?\w+:\]|[^\]\\])*\]|[\^$]/g;

/**
 * The expression for a piece of a text: `^` does not match where a piece begins in the middle of the text, nor `$` where it ends there. In the mode
 * `(?m)`, where they match at lines, they may also match at the edges of the pieces of a line of more than 3,000 characters.
 */
function toPieceExpression(expression: string, { isStart, isEnd }: TextChunk): string {
  if ((isStart && isEnd) || /\(\?[a-zA-Z]*m/.test(expression)) return expression;
  return expression.replace(tokens, (token) => {
    const isExcluded = (!isStart && (token === '^' || token === '\\A')) || (!isEnd && (token === '$' || token === '\\z'));
    return isExcluded ? never : token;
  });
}

/**
 * The text unchanged, and as a reader takes its letters: full-width letters and digits, dashes and spaces normalized, without zero-width
 * characters, and without control characters and lone surrogates, which some parsers drop.
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
