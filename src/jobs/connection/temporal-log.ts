/**
 * Brings the Temporal SDK's log lines into ours, without its noise: while a server is away the SDK says so with every attempt of every
 * poller, and what an activity threw is logged by `wrap-activities.ts` already. A warning is repeated at most once a minute.
 */
import type { Logger, LogLevel, LogMetadata } from '@temporalio/common';
import type { Logger as GatewayLogger } from '../../observability/logger.ts';

const repeatMs = 60_000;
/** More different warnings than this in a minute are not told apart. */
const mostMessages = 200;

/** A logger for the SDK's runtime that writes to ours. */
export function createSdkLogger(logger: GatewayLogger): Logger {
  const saidAt = new Map<string, number>();

  const log = (level: LogLevel, message: string, metadata?: LogMetadata): void => {
    const shown = isLoud(level) && !isNoise(message) && !wasSaidLately(message) ? level : 'DEBUG';
    const write = shown === 'ERROR' ? logger.error : shown === 'WARN' ? logger.warn : logger.debug;
    write.call(logger, pick(metadata), `temporal: ${message}`);
  };

  const wasSaidLately = (message: string): boolean => {
    const now = performance.now();
    const last = saidAt.get(message);
    if (last !== undefined && now - last < repeatMs) return true;
    if (saidAt.size >= mostMessages) saidAt.clear();
    saidAt.set(message, now);
    return false;
  };

  return {
    log,
    trace: (message, metadata) => log('TRACE', message, metadata),
    debug: (message, metadata) => log('DEBUG', message, metadata),
    info: (message, metadata) => log('INFO', message, metadata),
    warn: (message, metadata) => log('WARN', message, metadata),
    error: (message, metadata) => log('ERROR', message, metadata),
  };
}

/** The SDK tells its own life at level INFO; for us that is detail. */
function isLoud(level: LogLevel): boolean {
  return level === 'WARN' || level === 'ERROR';
}

function isNoise(message: string): boolean {
  return (
    message === 'Activity failed' || /^gRPC call \w+ (?:retried|will be retried)/.test(message) || message.includes('error while polling')
  );
}

/** Names of things only. */
function pick(metadata: LogMetadata | undefined): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of ['sdkComponent', 'workflowId', 'workflowType', 'activityType', 'attempt', 'runId', 'taskQueue']) {
    if (metadata?.[name] !== undefined) fields[name] = metadata[name];
  }
  if (metadata?.['error'] !== undefined) fields['err'] = metadata['error'];
  return fields;
}
