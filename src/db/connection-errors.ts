/**
 * Distinguishes an unreachable database from a failed statement: the API responds with `no_db` or `keystore_unavailable` to the first, and
 * with `query_failed` to the second.
 */
import { isObject } from '../core/json/narrow.ts';

/** Errors of the operating system and of Node's sockets that mean "no connection". */
const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT', // the Unix socket of a server that is not running
]);

/**
 * SQLSTATE: 08 connection exceptions, 57P01-05 server shutting down or starting, 53300 too many connections, 28 authentication failed, 3D000
 * database does not exist.
 */
const connectionState = /^(?:08|28)[0-9A-Z]{3}$|^57P0[1-5]$|^53300$|^3D000$/;

/** Errors that `pg` and PGlite throw without a code, recognised by their messages. */
const connectionMessage =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client (?:was closed|has encountered)|Cannot use a pool after|PGlite is clos|The server does not support SSL)/;

/** True when `error` or one of its causes means that there is no usable connection, whatever the statement was. */
export function isConnectionError(error: unknown): boolean {
  // Checks members, not the class: PGlite throws objects that are no errors.
  for (let current = error, depth = 0; isObject(current) && depth < 8; current = current.cause, depth += 1) {
    const { code, message, errors } = current;
    if (typeof code === 'string' && (socketCodes.has(code) || connectionState.test(code))) return true;
    if (typeof message === 'string' && connectionMessage.test(message)) return true;
    // An AggregateError: each address of a host name was tried.
    if (Array.isArray(errors) && errors.some(isConnectionError)) return true;
  }
  return false;
}
