/**
 * Brings the Temporal SDK's log lines into ours, without its noise: while a server is away the SDK says so with every attempt of every
 * poller, and what an activity threw is logged by `wrap-activities.ts` already. A warning is repeated at most once a minute.
 */
import type { Logger, LogLevel, LogMetadata } from '@temporalio/common';
import type { Logger as GatewayLogger } from '../../observability/logger.ts';

const repeatIntervalMs = 60_000;
/** More different warnings than this in a minute are not told apart. */
const maxMessages = 200;

/** A logger for the SDK's runtime that writes to ours. */
export function createSdkLogger(logger: GatewayLogger): Logger {
  const loggedAt = new Map<string, number>();

  const log = (level: LogLevel, message: string, metadata?: LogMetadata): void => {
    const effectiveLevel = isReported(level) && !isNoise(message) && !wasLoggedRecently(message) ? level : 'DEBUG';
    const write = effectiveLevel === 'ERROR' ? logger.error : effectiveLevel === 'WARN' ? logger.warn : logger.debug;
    write.call(logger, pickFields(metadata), `temporal: ${message}`);
  };

  const wasLoggedRecently = (message: string): boolean => {
    const now = performance.now();
    const last = loggedAt.get(message);
    if (last !== undefined && now - last < repeatIntervalMs) return true;
    if (loggedAt.size >= maxMessages) loggedAt.clear();
    loggedAt.set(message, now);
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
function isReported(level: LogLevel): boolean {
  return level === 'WARN' || level === 'ERROR';
}

function isNoise(message: string): boolean {
  return (
    message === 'Activity failed' || /^gRPC call \w+ (?:retried|will be retried)/.test(message) || message.includes('error while polling')
  );
}

/** Names of things only. */
function pickFields(metadata: LogMetadata | undefined): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of ['sdkComponent', 'workflowId', 'workflowType', 'activityType', 'attempt', 'runId', 'taskQueue']) {
    if (metadata?.[name] !== undefined) fields[name] = metadata[name];
  }
  if (metadata?.['error'] !== undefined) fields['err'] = metadata['error'];
  return fields;
}
