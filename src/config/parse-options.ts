import { type ParseArgsConfig, parseArgs } from 'node:util';
import { errorMessage } from '../core/error-messages.ts';
import { ConfigError } from './config.ts';

/** Parses command-line options. Throws ConfigError for unknown and malformed ones. */
export function parseOptions<const Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (cause) {
    // Node's message continues with a hint about values that start with a dash. Only keep the first sentence, which
    // says what's wrong.
    throw new ConfigError([errorMessage(cause).split('. ', 1)[0] ?? 'invalid options']);
  }
}
