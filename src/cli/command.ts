import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** Standard output as a stream, for output that doesn't fit into memory. Undefined if we don't write to a stream. */
  readonly stream?: NodeJS.WritableStream;
}

export interface Invocation {
  /** The parsed options, with their names in camel case. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly args: Readonly<Record<string, string | undefined>>;
  /** Fields of the query and the body, from options, arguments and `--file`. */
  readonly members: JsonObject;
  /**
   * Fills the parameters into the path and the query, and sends the request to the service. The body defaults to
   * `members`. Throws CommandError.
   */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** Like `send`, but the body can have any length. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** Like `send`, but yields the response in chunks, so it can have any length. */
  download(address: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /**
   * The operations that the command calls, such as `get /provision/teams`. Without a `run` function, the command calls
   * the first one for which the user has passed all path parameters.
   */
  readonly operations: readonly string[];
  /** Positional arguments that aren't path parameters. */
  readonly args?: readonly string[];
  /** Fields of the body that users can't set with an option. */
  readonly without?: readonly string[];
  /** Additional options, which don't set a field of the query or the body. */
  readonly options?: readonly Option[];
  readonly timeoutMs?: number;
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}

/** Thrown if a command fails. The message is a single line that tells the operator what's wrong. */
export class CommandError extends Error {
  /** The HTTP status of the service's response. Null if there was no response. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.status = status;
  }
}
