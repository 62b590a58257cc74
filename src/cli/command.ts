/** Types for commands and their invocations. */
import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** For output that's too large for memory: standard output as a stream, if there is one. */
  readonly stream?: NodeJS.WritableStream;
}

export interface Invocation {
  /** Parsed options, keyed in camel case. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Positional arguments, keyed by name. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** Query and body fields from options, arguments and `--file`. */
  readonly members: JsonObject;
  /**
   * Sends a request to the service. Fills in the parameters in the path and the query, and uses `members` as the body
   * unless you pass a different one. Throws CommandError.
   */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** Does the same as `send`, with a body of any length. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** Does the same as `send`, for a response of any length. */
  download(address: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /**
   * The operations that the command calls, such as `get /provision/teams`. Without a `run` function, the command calls
   * the first operation for which the user passed all path parameters.
   */
  readonly operations: readonly string[];
  /** Positional arguments in addition to those in the path. */
  readonly args?: readonly string[];
  /** Body fields that can't be set on the command line. */
  readonly without?: readonly string[];
  /** Options that set neither a query parameter nor a body field. */
  readonly options?: readonly Option[];
  readonly timeoutMs?: number;
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}

/** Thrown if a command fails. The message is a line that tells the operator why. */
export class CommandError extends Error {
  /** The status of the service's response. Null if there was no response. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.status = status;
  }
}
