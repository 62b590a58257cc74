/**
 * Caches the compiled expressions of content rules within a memory limit. RE2 adds states to an expression's
 * automaton while it reads text. By default, it keeps up to 8 MiB of states for each expression, which took 13 MB of
 * heap when we measured it.
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';

/** Limits the states of a single expression. If a text needs more of them, RE2 continues without the automaton. */
const maxAutomatonBytes = 512 * 1024;
/** The heap size of an instruction (measured). */
const instructionBytes = 200;
/** The heap size of one bound of a character range in an instruction (measured). */
const rangeBytes = 16;

export interface ExpressionCache {
  /** Throws RE2's own error if the expression can't be compiled. */
  test(expression: string, text: string): boolean;
  /** Estimates the total size of all compiled expressions and their automata. */
  bytes(): number;
}

/** `maxBytes` limits the estimated size. The actual heap usage can be up to twice as high. */
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
  /** Doesn't include the automaton, which grows while the expression reads text. */
  readonly bytes: number;
  /** The size that the cache has on record for this expression, or 0 if the expression isn't cached. */
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

/** Estimates how much heap a compiled expression uses before it has read any text. */
function programBytes(re2: RE2JS): number {
  return 4_096 + instructionBytes * re2.programSize() + rangeBytes * re2.re2().dfa.numClasses;
}

function automatonBytes(re2: RE2JS): number {
  const { stateBudget, memBudget } = re2.re2().dfa;
  return stateBudget - memBudget;
}
