/** Parses the options of a command line. */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { errorMessage } from '../core/error-messages.ts';
import { ConfigError } from './config.ts';

/** Throws ConfigError for an unknown or malformed option. */
export function parseOptions<const Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (cause) {
    // Only the first sentence of Node's message says what is wrong; advice about "--" follows.
    throw new ConfigError([errorMessage(cause).split('. ', 1)[0] ?? 'the options cannot be read']);
  }
}
