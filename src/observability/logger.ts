/**
 * Logs: one JSON object a line, on standard output unless told otherwise.
 *
 * Secrets are taken out at the last moment, from the finished line, so that no field, error message or stack can carry one past the check
 * (lessons 33). What looks like a secret is replaced up to its first characters, which tell an operator which key it was.
 */
import { types } from 'node:util';
import pino from 'pino';
import { createLogOutput, type LogOutput } from './log-output.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}

export interface LoggerOptions {
  readonly level: LogLevel;
  /** Where the lines go; standard output when absent. */
  readonly destination?: { write(line: string): void };
  /** Which process of a set writes, in each line. */
  readonly process?: number;
}

/** An `Error` in a field is written with its message, stack and causes. */
export function createLogger({ level, destination, process: slot }: LoggerOptions): Logger {
  const target = destination ?? standardOutput();
  const logger = pino(
    {
      level,
      base: slot === undefined ? null : { process: slot },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: serializeError, err: serializeError },
    },
    { write: (line: string) => target.write(redactSecrets(line)) },
  );
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
  };
}

/** Asking for Node's own stream puts a pipe into the mode in which a full one refuses bytes instead of stopping the process. */
export function standardOutput(): LogOutput {
  return createLogOutput({ fd: process.stdout.fd });
}

/** Each keeps, as `$1`, what names the secret without being it. Runs are bounded, so that no text makes them slow. */
const secrets: readonly RegExp[] = [
  /\b(sk-gw-[a-z0-9]{8})-[0-9A-Za-z]{20,}/g, // virtual key: its prefix is public
  /\b(sk-(?:ant-|proj-|or-v1-|svcacct-)?)[\w-]{16,}/g, // OpenAI, Anthropic, OpenRouter and those who copied them
  /\b(gwp_)[\w-]{8,}/g, // personal token
  /\b(AIza|gsk_|xai-|hf_|r8_|pplx-|ghp_|AKIA)[\w-]{12,}/g, // Google, Groq, xAI, Hugging Face, Replicate, Perplexity, GitHub, AWS
  /\b((?:bearer|basic)\s{1,8})[\w.~+/=-]{6,}/gi,
  // Named secrets, as a member of JSON (also of JSON inside of a text) and as `name: value` or `name=value`. Only text is replaced, never
  // JSON's own brackets, so that a line stays JSON.
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\\{0,8}["']\s{0,8}:\s{0,8}\\{0,8}["'])[^"'\\]{6,}/gi,
  /((?:x-api-key|x-goog-api-key|api[_-]?key|password|secret|token)\s{0,8}[:=]\s{0,8})[^\s"'\\,;&{}[\]]{6,}/gi,
  /(:\/\/[^\s:/@"\\]{1,256}:)[^\s@"\\]{1,256}(?=@)/g, // user:password@ in an address
  /\b(eyJ)[\w-]{10,4096}\.[\w-]{10,}\.[\w-]*/g, // JSON web token
];

/** The text with everything that looks like a secret replaced. */
function redactSecrets(text: string): string {
  return secrets.reduce((result, pattern) => result.replace(pattern, (_whole: string, kept: string) => `${kept}[redacted]`), text);
}

function serializeError(error: unknown): unknown {
  // Not by `instanceof`: Node's own errors are of another realm inside jest and worker contexts.
  if (!types.isNativeError(error)) return error;
  const { name, message, stack, cause } = error;
  const code = 'code' in error ? { code: error.code } : {};
  return { name, message, ...code, stack, ...(cause === undefined ? {} : { cause: serializeError(cause) }) };
}
