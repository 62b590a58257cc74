/**
 * Formats log lines for people at a terminal. All fields are kept, but the time is shortened because people know the
 * date.
 */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';

/**
 * Formats a line that the logger has written as JSON. We don't have to look for secrets again, because the logger has
 * already redacted them.
 */
export function toLogText(line: string): string {
  const { level, time, msg, err, ...fields } = asObject(JSON.parse(line));
  const clock = new Date(String(time)).toLocaleTimeString('en-GB');
  const described = Object.entries(fields).map(([name, value]) => ` ${name}=${formatValue(value)}`);
  const error = err === undefined ? '' : describeError(err, '  ');
  return `${clock} ${String(level).toUpperCase().padEnd(5)} ${printable(String(msg))}${described.join('')}\n${error}`;
}

function formatValue(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@+-]+$/.test(value) ? value : printable(JSON.stringify(value));
}

/** Describes an error. The message, the stack frames and the causes each get their own line. */
function describeError(error: unknown, indent: string): string {
  if (typeof error !== 'object' || error === null) return `${indent}${formatValue(error)}\n`;
  const { name, message, stack, cause, errors, ...others }: JsonObject = asObject(error);
  const lines = typeof stack === 'string' ? stack.split('\n') : [`${String(name)}: ${String(message)}`];
  const details = Object.entries(others).map(([key, value]) => `${key}=${formatValue(value)}`);
  const causes = [...(cause === undefined ? [] : [cause]), ...asArray(errors)];
  return [
    ...[...lines, ...details].map((line) => `${indent}${printable(line.trim())}\n`),
    ...causes.map((each) => `${indent}caused by:\n${describeError(each, `${indent}  `)}`),
  ].join('');
}

/** Escape control characters, because vendors and callers could otherwise send escape sequences to the terminal. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
