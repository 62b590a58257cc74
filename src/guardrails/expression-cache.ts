/**
 * Compiled expressions of content rules, bounded by their memory. RE2 builds the states of an expression's automaton while it reads texts, and by
 * default keeps up to 8 MiB of them (13 MB of heap, measured) for each expression.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';

/** One expression may keep so many bytes of states. If a text needs more, RE2 continues without the automaton. */
const maxAutomatonBytes = 512 * 1024;
/** Of an instruction, and of a bound of a character range in it (measured). */
const instructionBytes = 200;
const rangeBytes = 16;

export interface ExpressionCache {
  /** Whether the expression matches in the text. Throws what RE2 throws for an expression that it cannot compile. */
  test(expression: string, text: string): boolean;
  /** Bytes of all compiled expressions and their automata, estimated. */
  bytes(): number;
}

/** `maxBytes` bounds the estimate; in the heap it is up to twice as much. */
export function createExpressionCache(maxBytes: number): ExpressionCache {
  const cache = new LRUCache<string, CompiledExpression>({ maxSize: maxBytes });
  return {
    test(expression, text) {
      const compiled = cache.get(expression) ?? compileExpression(expression);
      const isMatch = compiled.re2.test(text);
      const bytes = compiled.bytes + automatonBytes(compiled.re2);
      if (bytes !== compiled.countedBytes) {
        compiled.countedBytes = bytes;
        cache.set(expression, compiled, { size: bytes });
      }
      return isMatch;
    },
    bytes: () => cache.calculatedSize,
  };
}

interface CompiledExpression {
  readonly re2: RE2JS;
  /** Without its automaton. */
  readonly bytes: number;
  /** The size by which the cache knows it; 0 while it is not in the cache. */
  countedBytes: number;
}

function compileExpression(expression: string): CompiledExpression {
  const re2 = RE2JS.compile(expression);
  const bytes = programBytes(re2);
  const { dfa } = re2.re2();
  dfa.stateBudget = maxAutomatonBytes;
  dfa.memBudget = maxAutomatonBytes;
  return { re2, bytes, countedBytes: 0 };
}

/** The heap that a compiled expression takes before it has read a text, estimated. */
function programBytes(re2: RE2JS): number {
  return 4_096 + instructionBytes * re2.programSize() + rangeBytes * re2.re2().dfa.numClasses;
}

function automatonBytes(re2: RE2JS): number {
  const { stateBudget, memBudget } = re2.re2().dfa;
  return stateBudget - memBudget;
}
