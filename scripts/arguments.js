/** Parses the command-line options of benchmarks and similar scripts. */
import { parseArgs } from 'node:util';
import { BootstrapError } from './npm.js';

/**
 * Like `parseArgs`, but throws a {@link BootstrapError} for invalid arguments.
 * @template {import('node:util').ParseArgsConfig} Config
 * @param {Config} config
 */
export function readArguments(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new BootstrapError(/** @type {Error} */ (error).message);
  }
}
