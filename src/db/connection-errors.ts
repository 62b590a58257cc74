/**
 * Tells a database that cannot be reached from a statement that failed, so that callers can answer `no_db` or `keystore_unavailable`
 * for the first and `query_failed` for the second.
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
 * SQLSTATE: 08 connection exceptions, 57P01-05 server going down or starting, 53300 too many connections, 28 refused sign-in, 3D000 no such
 * database. With the last two the server is there, but for us there is no database either.
 */
const connectionState = /^(?:08|28)[0-9A-Z]{3}$|^57P0[1-5]$|^53300$|^3D000$/;

/** Errors that `pg` and PGlite make without a code; their messages are the only mark. */
const connectionMessage =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client (?:was closed|has encountered)|Cannot use a pool after|PGlite is clos|The server does not support SSL)/;

/** True when `error` (or what caused it) says that there is no usable connection, whatever the statement was. */
export function isConnectionError(error: unknown): boolean {
  // By its members, not its class: an error of Node's own sockets is of another realm inside jest and worker contexts.
  for (let current = error, depth = 0; isObject(current) && depth < 8; current = current.cause, depth += 1) {
    const { code, message, errors } = current;
    if (typeof code === 'string' && (socketCodes.has(code) || connectionState.test(code))) return true;
    if (typeof message === 'string' && connectionMessage.test(message)) return true;
    // Both addresses of a host name were tried, and each has an error of its own.
    if (Array.isArray(errors) && errors.some(isConnectionError)) return true;
  }
  return false;
}
