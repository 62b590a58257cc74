/**
 * Forwards the Temporal SDK's log to the gateway's log, without the noise. During an outage, the SDK logs every attempt
 * of every poller, so we let the same warning through only once a minute. We skip errors of activities, because
 * `wrap-activities.ts` already logs them.
 */
import type { Logger, LogLevel, LogMetadata } from '@temporalio/common';
import { LRUCache } from 'lru-cache';
import { isObject } from '../../core/json/narrow.ts';
import type { LogFields } from '../../observability/log-fields.ts';
import type { Logger as GatewayLogger } from '../../observability/logger.ts';

const repeatIntervalMs = 60_000;
/**
 * How many different messages we remember in order to suppress repetitions. If there are more, some of them may be
 * logged more often than once a minute.
 */
const maxMessages = 200;

export function createSdkLogger(logger: GatewayLogger): Logger {
  const loggedMessages = new LRUCache<string, true>({ max: maxMessages, ttl: repeatIntervalMs });

  const log = (level: LogLevel, message: string, metadata?: LogMetadata): void => {
    const effectiveLevel = isReported(level) && !isNoise(message, metadata) && !wasLoggedRecently(message) ? level : 'DEBUG';
    const write = effectiveLevel === 'ERROR' ? logger.error : effectiveLevel === 'WARN' ? logger.warn : logger.debug;
    write.call(logger, pickFields(metadata), `temporal: ${message}`);
  };

  const wasLoggedRecently = (message: string): boolean => {
    // Messages that only differ in ids and numbers are repeats of each other.
    const kind = message.replaceAll(/[0-9a-f-]{36}|\d+/g, '');
    if (loggedMessages.has(kind)) return true;
    loggedMessages.set(kind, true);
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

/** Only warnings and errors are forwarded. At INFO level, the SDK just logs its own lifecycle. */
function isReported(level: LogLevel): boolean {
  return level === 'WARN' || level === 'ERROR';
}

function isNoise(message: string, metadata: LogMetadata | undefined): boolean {
  const error: unknown = metadata?.['error'];
  return (
    (isObject(error) && error['name'] === 'MissingPayloadKeyError') || // already logged by `missing-keys.ts`
    message === 'Activity failed' ||
    /^gRPC call \w+ (?:retried|will be retried)/.test(message) ||
    message.includes('error while polling')
  );
}

/** Only keeps the ids, the names and the error, because we don't know whether any other field is safe to log. */
function pickFields(metadata: LogMetadata | undefined): LogFields {
  const fields: { -readonly [Name in keyof LogFields]: unknown } = {};
  for (const name of ['sdkComponent', 'workflowId', 'workflowType', 'activityType', 'attempt', 'runId', 'taskQueue'] as const) {
    if (metadata?.[name] !== undefined) fields[name] = metadata[name];
  }
  if (metadata?.['error'] !== undefined) fields['err'] = metadata['error'];
  return fields;
}
