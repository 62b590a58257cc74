/**
 * Writes log lines to standard output by default, as one JSON object per line or as text for people. We redact secrets
 * in the finished line, so this covers every field, error message and stack. The prefix of a secret stays, so that an
 * operator can identify the key.
 */
import { isatty } from 'node:tty';
import { inspect, types } from 'node:util';
import { createTimestampFormat, systemClock } from '../core/time.ts';
import type { LogFields } from './log-fields.ts';
import { createLogOutput, type LogOutput } from './log-output.ts';
import { toLogText } from './log-text.ts';
import { activeTraceId } from './tracing.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
/** `auto` means text if standard output is a terminal, and JSON otherwise. */
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
  /** Receives the lines. Defaults to standard output. */
  readonly destination?: { write(line: string): void };
  /** The slot of this process in its cluster, which is added to each line. */
  readonly process?: number;
}

const levels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

/**
 * Creates a logger. It writes the error in the field `err` with its message, stack and causes. Since every call writes
 * a line, we assemble the JSON from parts. A logging library took three times as much CPU time (measured).
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

/** Returns the format that `auto` stands for in this process. */
export function resolveLogFormat(format: LogFormat): 'json' | 'text' {
  if (format !== 'auto') return format;
  return isatty(process.stdout.fd) ? 'text' : 'json';
}

/** Returns the members of the fields, starting with a comma. */
function formatFields(fields: LogFields): string {
  const json = stringify('err' in fields ? { ...fields, err: serializeError(fields.err) } : fields);
  return json === '{}' ? '' : `,${json.slice(1, -1)}`;
}

/** Returns JSON for any object, even if it contains a cycle or a BigInt. */
function stringify(fields: LogFields): string {
  try {
    return JSON.stringify(fields);
  } catch {
    return JSON.stringify({ fields: inspect(fields) });
  }
}

/**
 * Writing in every tick takes 2 % of the CPU time of a chat call (measured with 16 connections). In a cluster it also
 * wakes the parent process, which takes 30 µs of CPU time for the lines of one or two calls.
 */
const collectLinesMs = 50;

/**
 * Returns an output for standard output. Lines that other processes have already collected don't need `collectMs`.
 * Accessing Node's own stream puts a pipe into non-blocking mode, so a full pipe rejects bytes instead of blocking the
 * process.
 */
export function standardOutput(collectMs = 0): LogOutput {
  return createLogOutput({ fd: process.stdout.fd, collectMs });
}

/**
 * Each pattern captures as `$1` what identifies the secret, and we keep that part. Repetitions are bounded so that no
 * input can make them slow. A secret has to start at a word boundary. The letter of an escape such as `\n` doesn't
 * count as part of a word.
 */
const secrets: readonly RegExp[] = [
  /(?<!(?<!\\)\w)(sk-gw-[a-z0-9]{8})-[0-9A-Za-z]{20,}/g, // virtual key, whose prefix is public
  /(?<!(?<!\\)\w)(sk-(?:ant-|proj-|or-v1-|svcacct-)?)[\w-]{16,}/g, // OpenAI, Anthropic, OpenRouter and vendors with the same format
  /(?<!(?<!\\)\w)(gwp_)[\w-]{8,}/g, // personal token
  /(?<!(?<!\\)\w)(AIza|gsk_|xai-|hf_|r8_|pplx-|ghp_|AKIA)[\w-]{12,}/g, // Google, Groq, xAI, Hugging Face, Replicate, Perplexity, GitHub, AWS
  /(?<!(?<!\\)\w)((?:bearer|basic)\s{1,8})[\w.~+/=-]{6,}/gi,
  // These match secrets by name, either as a JSON member (including JSON inside of a string) or as `name: value` or
  // `name=value`, quoted or not. They never replace JSON's own brackets, so the line stays valid JSON.
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\\{0,8}["']\s{0,8}:\s{0,8}\\{0,8}["'])[^"'\\]{6,}/gi,
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\s{0,8}[:=]\s{0,8}\\{0,8}["'])(?![,:}\]])[^"'\\]{6,}/gi,
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\s{0,8}[:=]\s{0,8})[^\s"'\\,;&{}[\]]{6,}/gi,
  /(:\/\/[^\s:/@"\\]{1,256}:)[^\s@"\\]{1,256}(?=@)/g, // user:password@ in an address
  /(?<!(?<!\\)\w)(eyJ)[\w-]{10,4096}\.[\w-]{10,}\.[\w-]*/g, // JSON web token
];

/**
 * Matches what the text of every secret contains, so that we can skip the patterns above for most lines. The prefix of
 * a key occurs in every call's line but is too short to match. Ignoring case for the whole expression takes twice as
 * long (measured).
 */
const signs = /sk-[\w-]{16}|gwp_|AIza|gsk_|xai-|hf_|r8_|pplx-|ghp_|AKIA|(?i:bearer|basic|api[_-]?key|password|secret|token)|:\/\/|eyJ/;

function redactSecrets(text: string): string {
  if (!signs.test(text)) return text;
  return secrets.reduce((result, pattern) => result.replace(pattern, (_whole: string, kept: string) => `${kept}[redacted]`), text);
}

/** Limits the depth, because an error may be one of its own causes. */
const maxCauses = 8;

function serializeError(error: unknown, depth = 0): unknown {
  // `instanceof` doesn't work for errors from workflow sandboxes, because they belong to another realm.
  if (!types.isNativeError(error)) return error;
  const { name, message, stack, cause } = error;
  const code = 'code' in error ? { code: error.code } : {};
  return {
    name,
    message,
    ...code,
    stack,
    ...(cause === undefined || depth === maxCauses ? {} : { cause: serializeError(cause, depth + 1) }),
    ...('errors' in error && Array.isArray(error.errors) && depth < maxCauses
      ? { errors: error.errors.slice(0, maxCauses).map((each) => serializeError(each, depth + 1)) }
      : {}),
  };
}
