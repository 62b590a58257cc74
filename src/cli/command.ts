/** Types for commands and for running them. */
import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** Standard output as a stream, for output that doesn't fit into memory. Not every output has one. */
  readonly stream?: NodeJS.WritableStream;
}

export interface Invocation {
  /** The parsed options, with their names in camel case. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The positional arguments by name. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** The fields for the query and the body. They come from options, arguments and `--file`. */
  readonly members: JsonObject;
  /**
   * Sends a request to the service, with the parameters filled into the path and the query. The body consists of
   * `members`, unless you pass another one. Throws CommandError.
   */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** Like `send`, for a body of any length. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** Like `send`, for a response of any length. */
  download(address: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /**
   * The operations that the command calls, such as `get /provision/teams`. If there's no `run` function, we call the
   * first one for which the user has passed all path parameters.
   */
  readonly operations: readonly string[];
  /** Positional arguments that aren't in any path. */
  readonly args?: readonly string[];
  /** Fields of the body for which there's no option. */
  readonly without?: readonly string[];
  /** Options that aren't fields of the query or the body. */
  readonly options?: readonly Option[];
  readonly timeoutMs?: number;
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}

/** Thrown if a command fails. The message is a single line that tells the operator what's wrong. */
export class CommandError extends Error {
  /** The status with which the service has responded. Null if it hasn't. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.status = status;
  }
}
