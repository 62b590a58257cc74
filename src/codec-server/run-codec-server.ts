/** Implements `gateway codec-server`, which runs the codec server until the process is asked to stop. */

import { ConfigError } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { errorSummary } from '../core/error-messages.ts';
import { systemClock } from '../core/time.ts';
import { untilAborted } from '../core/time-limit.ts';
import { createLogger } from '../observability/logger.ts';
import { createCodecServer } from './codec-server.ts';
import { codecServerUsage, readCodecServerSettings } from './codec-server-options.ts';

export interface CodecServerHost {
  readonly env: Environment;
  write(text: string): void;
  readonly stopping: AbortSignal;
}

/** Throws ConfigError if an option is invalid or the server can't listen on the address. */
export async function runCodecServer(args: readonly string[], { env, write, stopping }: CodecServerHost): Promise<void> {
  const settings = await readCodecServerSettings(args, env);
  if (settings === null) return write(codecServerUsage);
  const { host, port, logLevel, logFormat } = settings;
  const logger = createLogger({ level: logLevel, format: logFormat });
  const server = await createCodecServer({ ...settings, clock: systemClock, logger }).catch((error: unknown) => {
    throw new ConfigError([`--port, --host: the codec server cannot listen on ${host}:${port}: ${errorSummary(error)}`]);
  });
  write(
    `Codec server: sign in at ${server.url}, and enter this address in the codec server settings of the Temporal UI, with "Include cross-origin credentials" on\n`,
  );
  await untilAborted(stopping);
  await server.close();
}
