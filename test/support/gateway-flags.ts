/**
 * Preloaded with `--import` into programs that load the gateway's modules without `main.ts`. They then have the same V8
 * flags, so that they can use the same compiled code.
 */
import { setV8Flags } from '../../src/core/v8-flags.ts';

setV8Flags();
