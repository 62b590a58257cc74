/**
 * Distinguishes an unreachable database from a failed statement, because the API returns different errors for them:
 * `no_db` or `keystore_unavailable` if we can't reach the database, and `query_failed` if a statement fails.
 */
import { isObject } from '../core/json/narrow.ts';

/** Error codes of the operating system and of Node's sockets which mean that there's no connection. */
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
  'ENOENT', // the Unix socket of a server that isn't running
]);

/**
 * Matches SQLSTATEs which mean that there's no connection: 08 connection exceptions, 57P01 to 57P05 server shutting
 * down or starting, 53300 too many connections, 28 authentication failed, 3D000 database doesn't exist.
 */
const connectionState = /^(?:08|28)[0-9A-Z]{3}$|^57P0[1-5]$|^53300$|^3D000$/;

/** Matches connection errors that `pg` and PGlite throw without a code. */
const connectionMessage =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client (?:was closed|has encountered)|Cannot use a pool after|PGlite is clos|The server does not support SSL)/;

/**
 * Returns true if `error`, or one of its causes, means that there's no usable connection. Errors in the statement
 * itself don't count.
 */
export function isConnectionError(error: unknown): boolean {
  // Check the properties rather than `instanceof`, because PGlite throws plain objects.
  for (let current = error, depth = 0; isObject(current) && depth < 8; current = current.cause, depth += 1) {
    const { code, message, errors } = current;
    if (typeof code === 'string' && (socketCodes.has(code) || connectionState.test(code))) return true;
    if (typeof message === 'string' && connectionMessage.test(message)) return true;
    // For a host name with several addresses, Node throws an AggregateError with one error per address.
    if (Array.isArray(errors) && errors.some(isConnectionError)) return true;
  }
  return false;
}
