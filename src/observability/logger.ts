/**
 * Writes log lines, by default to standard output. A line is either a JSON object or readable text. We redact secrets
 * in the finished line, so that no field, error message or stack can contain them. The prefix of a secret is kept, so
 * that operators can identify the key.
 */
import { isatty } from 'node:tty';
import { inspect, types } from 'node:util';
import { cutText } from '../core/cut-text.ts';
import { errorMessage } from '../core/error-messages.ts';
import { createTimestampFormat, systemClock } from '../core/time.ts';
import type { LogFields } from './log-fields.ts';
import { createLogOutput, type LogOutput } from './log-output.ts';
import { toLogText } from './log-text.ts';
import { activeTraceId } from './tracing.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
/** `auto` means text for a terminal, and JSON for everything else. */
export type LogFormat = 'auto' | 'json' | 'text';
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  /** Defaults to JSON. */
  readonly format?: LogFormat;
  readonly destination?: { write(line: string): void };
  /** The number of this process's slot in its cluster. We log it with every line. */
  readonly process?: number;
}

const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/**
 * Creates a logger. `err` is logged with its message, stack and causes. Every call writes a line, so the JSON is
 * assembled from parts. A logging library took three times as much CPU time (measured).
 */
export function createLogger({ level, format: lineFormat = 'json', destination, process: slot }: LoggerOptions): Logger {
  const target = destination ?? standardOutput(collectLinesMs);
  const isText = resolveLogFormat(lineFormat) === 'text';
  const base = slot === undefined ? '' : `,"process":${slot}`;
  const format = createTimestampFormat();
  const writer = (name: Exclude<LogLevel, 'silent'>): Logger['info'] => {
    if (levels.indexOf(name) < levels.indexOf(level)) return () => undefined;
    return (fields, message) => {
      const trace = activeTraceId();
      const start = `{"level":"${name}","time":"${format(systemClock.now())}"${base}${trace === undefined ? '' : `,"trace":"${trace}"`}`;
      const line = redactSecrets(`${start}${formatFields(fields)},"msg":${JSON.stringify(message)}}\n`);
      target.write(isText ? toLogText(line) : line);
    };
  };
  return { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
}

export function resolveLogFormat(format: LogFormat): 'json' | 'text' {
  if (format !== 'auto') return format;
  return isatty(process.stdout.fd) ? 'text' : 'json';
}

function formatFields(fields: LogFields): string {
  const json = stringify('err' in fields ? { ...fields, err: serializeError(fields.err) } : fields);
  return json === '{}' ? '' : `,${json.slice(1, -1)}`;
}

/** `JSON.stringify` throws for cycles and BigInts. In this case, the inspected object is logged as text. */
function stringify(fields: LogFields): string {
  try {
    return JSON.stringify(fields);
  } catch {
    return JSON.stringify({ fields: inspect(fields) });
  }
}

/**
 * Collecting lines for a while saves 2 % of the CPU time of a chat call, compared with writing at the end of each tick
 * (measured with 16 connections). In a cluster, each write also wakes up the parent process. That takes 30 µs of CPU
 * time, and a tick only has the lines of one or two calls.
 */
const collectLinesMs = 50;

/**
 * Writes to standard output. The parent of a cluster doesn't need `collectMs`, because its processes have already
 * collected their lines. Accessing `process.stdout` switches a pipe to non-blocking mode, so that writing to a full
 * pipe fails instead of blocking the process.
 */
export function standardOutput(collectMs = 0): LogOutput {
  return createLogOutput({ fd: process.stdout.fd, collectMs });
}

/**
 * `$1` is the part of the match that we keep, because it identifies the secret. Repetitions are bounded, so that no
 * input makes a pattern slow. Most patterns only match at a word boundary, or directly after the letter of an escape
 * such as `\n`.
 */
const secrets: readonly RegExp[] = [
  /(?<!(?<!\\)\w)(sk-gw-[a-z0-9]{8})-[0-9A-Za-z]{20,}/g, // virtual key with its public prefix
  /(?<!(?<!\\)\w)(sk-(?:ant-|proj-|or-v1-|svcacct-)?)[\w-]{16,}/g, // OpenAI, Anthropic, OpenRouter and vendors with the same format
  /(?<!(?<!\\)\w)(gwp_)[\w-]{8,}/g, // personal token
  /(?<!(?<!\\)\w)(AIza|gsk_|xai-|hf_|r8_|pplx-|ghp_|AKIA)[\w-]{12,}/g, // Google, Groq, xAI, Hugging Face, Replicate, Perplexity, GitHub, AWS
  /(?<!(?<!\\)\w)((?:bearer|basic)\s{1,8})[\w.~+/=-]{6,}/gi,
  // Secrets that we recognize by their name: as a JSON property (even in JSON inside a string), as `name: value` and as
  // `name=value`, quoted or not. The expressions never match JSON's own brackets, so a masked line is still valid JSON.
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\\{0,8}["']\s{0,8}:\s{0,8}\\{0,8}["'])[^"'\\]{6,}/gi,
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\s{0,8}[:=]\s{0,8}\\{0,8}["'])(?![,:}\]])[^"'\\]{6,}/gi,
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\s{0,8}[:=]\s{0,8})[^\s"'\\,;&{}[\]]{6,}/gi,
  /(:\/\/[^\s:/@"\\]{1,256}:)[^\s@"\\]{1,256}(?=@)/g, // user:password@ in a URL
  /(?<!(?<!\\)\w)(eyJ)[\w-]{10,4096}\.[\w-]{10,}\.[\w-]*/g, // JSON web token
];

/**
 * Recognizes text that may contain a secret, so that most lines skip the slower patterns. The key prefix that every
 * call logs is too short to match. Ignoring case in the whole expression would take twice as long (measured).
 */
const signs = /sk-[\w-]{16}|gwp_|AIza|gsk_|xai-|hf_|r8_|pplx-|ghp_|AKIA|(?i:bearer|basic|api[_-]?key|password|secret|token)|:\/\/|eyJ/;

function redactSecrets(text: string): string {
  if (!signs.test(text)) return text;
  return secrets.reduce((result, pattern) => result.replace(pattern, (_whole: string, kept: string) => `${kept}[redacted]`), text);
}

/** Some messages quote thousands of characters of a vendor's response, because the caller gets them. */
const maxMessageLength = 1_000;
/** A stack begins with the message that the error had when it was created, so it may still be long. */
const maxStackLength = 4_000;

/** A limit is necessary, because an error can be its own cause. */
const maxCauses = 8;

function serializeError(error: unknown, depth = 0): unknown {
  // Don't use `instanceof`, because errors from workflow sandboxes belong to a different realm.
  if (!types.isNativeError(error)) return error;
  const { name, stack, cause } = error;
  const wholeMessage = errorMessage(error);
  // If we cut a secret in half, we wouldn't recognize it afterwards.
  const message = wholeMessage.length <= maxMessageLength ? wholeMessage : cutText(redactSecrets(wholeMessage), maxMessageLength);
  const code = 'code' in error ? { code: error.code } : {};
  return {
    name,
    message,
    ...code,
    stack:
      message === wholeMessage && (stack?.length ?? 0) <= maxStackLength ? stack : [`${name}: ${message}`, ...framesOf(stack)].join('\n'),
    ...(cause === undefined || depth === maxCauses ? {} : { cause: serializeError(cause, depth + 1) }),
    ...('errors' in error && Array.isArray(error.errors) && depth < maxCauses
      ? { errors: error.errors.slice(0, maxCauses).map((each) => serializeError(each, depth + 1)) }
      : {}),
  };
}

/** Returns the lines of the stack that aren't a part of its message. */
function framesOf(stack = ''): readonly string[] {
  return stack
    .split('\n')
    .filter((line) => /^ {4}at /.test(line))
    .slice(-Error.stackTraceLimit);
}
