import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** Standard output as a stream, for output that doesn't fit into memory. Missing if the output isn't a stream. */
  readonly stream?: NodeJS.WritableStream;
}

export interface Invocation {
  /** The parsed options, with their names in camel case. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly args: Readonly<Record<string, string | undefined>>;
  /** Fields of the query and the body, from options, arguments and `--file`. */
  readonly members: JsonObject;
  /**
   * Sends a request to the service and fills the parameters into the path and the query. The body defaults to
   * `members`. Throws CommandError.
   */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** Sends a body of any length. Works like `send` otherwise. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** Yields a response of any length in chunks. Works like `send` otherwise. */
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
  /** Fields of the body that get no option. */
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
