/**
 * Formats log lines for people at a terminal. Keeps all fields, but shortens the time because people know the date.
 */
import { asArray, asObject, type JsonObject } from '../core/json/narrow.ts';
import { parseJson } from '../core/json/parse.ts';

export function toLogText(line: string): string {
  const { level, time, msg, err, ...fields } = asObject(parseJson(line));
  const clock = new Date(String(time)).toLocaleTimeString('en-GB');
  const described = Object.entries(fields).map(([name, value]) => ` ${name}=${formatValue(value)}`);
  const error = err === undefined ? '' : describeError(err, '  ');
  return `${clock} ${String(level).toUpperCase().padEnd(5)} ${printable(String(msg))}${described.join('')}\n${error}`;
}

function formatValue(value: unknown): string {
  return typeof value === 'string' && /^[\w./:@+-]+$/.test(value) ? value : printable(JSON.stringify(value));
}

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

/** Escapes control characters, because vendors and callers could otherwise send escape sequences to the terminal. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
