/**
 * Caches the compiled expressions of content rules within a memory limit. While RE2 reads text, it adds states to the
 * automaton of an expression. By default, it would keep up to 8 MiB of states per expression, which takes 13 MB of heap
 * (measured).
 */
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';

/**
 * The maximum size of an expression's automaton. If that isn't enough for a text, RE2 falls back to a slower engine.
 */
const maxAutomatonBytes = 512 * 1024;
/** How much heap an instruction of a compiled expression takes (measured). */
const instructionBytes = 200;
/** How much heap each end of a character range takes in a compiled expression (measured). */
const rangeBytes = 16;

export type ExpressionCache = ReturnType<typeof createExpressionCache>;

/** `maxBytes` limits the estimated size. The actual heap usage can be twice as much. */
export function createExpressionCache(maxBytes: number) {
  const cache = new LRUCache<string, CompiledExpression>({ maxSize: maxBytes });
  return {
    /** Throws RE2's error if the expression is invalid. */
    test(expression: string, text: string): boolean {
      const compiled = cache.get(expression) ?? compileExpression(expression);
      const isMatch = compiled.re2.test(text);
      const bytes = compiled.bytes + automatonBytes(compiled.re2);
      if (bytes !== compiled.countedBytes) {
        compiled.countedBytes = bytes;
        cache.set(expression, compiled, { size: bytes });
      }
      return isMatch;
    },
    /** Returns the estimated size of all compiled expressions, including their automata. */
    bytes: () => cache.calculatedSize,
  };
}

interface CompiledExpression {
  readonly re2: RE2JS;
  /**
   * The size of the compiled program. It doesn't include the automaton, which grows while the expression reads text.
   */
  readonly bytes: number;
  /** The size that the cache currently counts. 0 if the expression was never cached. */
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

function programBytes(re2: RE2JS): number {
  return 4_096 + instructionBytes * re2.programSize() + rangeBytes * re2.re2().dfa.numClasses;
}

function automatonBytes(re2: RE2JS): number {
  const { stateBudget, memBudget } = re2.re2().dfa;
  return stateBudget - memBudget;
}
