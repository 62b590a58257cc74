import { type ParseArgsConfig, parseArgs } from 'node:util';
import { errorMessage } from '../core/error-messages.ts';
import { ConfigError } from './config.ts';

/** Parses command line options. Throws ConfigError for an unknown or malformed option. */
export function parseOptions<const Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (cause) {
    // We only keep the first sentence of Node's message, which says what is wrong. The rest is advice about "--".
    throw new ConfigError([errorMessage(cause).split('. ', 1)[0] ?? 'the options cannot be read']);
  }
}
