/**
 * Stands in for `@jest/globals` in files that are loaded by Node (see native-runner.ts). The same helper is used by
 * several test files, each of which has its own globals. That's why the bindings are live, and helpers must not copy
 * them while they're being loaded.
 */
import type * as Globals from '@jest/globals';

export type Mocks = Pick<typeof Globals.jest, 'fn' | 'spyOn'> & { restoreAllMocks(): void };

export interface JestGlobals {
  readonly afterAll: typeof Globals.afterAll;
  readonly afterEach: typeof Globals.afterEach;
  readonly beforeAll: typeof Globals.beforeAll;
  readonly beforeEach: typeof Globals.beforeEach;
  readonly describe: typeof Globals.describe;
  readonly expect: typeof Globals.expect;
  readonly it: typeof Globals.it;
  readonly jest: Mocks;
  readonly test: typeof Globals.test;
}

export let afterAll: typeof Globals.afterAll;
export let afterEach: typeof Globals.afterEach;
export let beforeAll: typeof Globals.beforeAll;
export let beforeEach: typeof Globals.beforeEach;
export let describe: typeof Globals.describe;
export let expect: typeof Globals.expect;
export let it: typeof Globals.it;
export let jest: Mocks;
export let test: typeof Globals.test;

export function setJestGlobals(globals: JestGlobals): void {
  ({ afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest, test } = globals);
}
