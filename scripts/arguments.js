/** Options of the command line of a measurement. */
import { parseArgs } from 'node:util';
import { BootstrapError } from './npm.js';

/**
 * As `parseArgs`; what it rejects is a {@link BootstrapError}.
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
