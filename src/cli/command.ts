/** Types for commands and their invocations. */
import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** The standard output, for output that is too long to hold in memory. Missing if there is no such stream. */
  readonly stream?: NodeJS.WritableStream;
}

/** A command with the options and arguments that the user passed. */
export interface Invocation {
  /** The parsed options by their camel case names. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The positional arguments by name. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** The members of the query or the body that the options, the arguments and `--file` set. */
  readonly members: JsonObject;
  /**
   * Sends an operation. The parameters of its path and query are filled in, and its body consists of `members` unless
   * you pass one. Throws CommandError.
   */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** Works like `send`, but with a body of any length. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** Works like `send`, but for a response of any length. */
  download(address: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /**
   * The operations that the command calls, such as `get /provision/teams`. If there is no `run`, it calls the first
   * operation for which all path parameters were given.
   */
  readonly operations: readonly string[];
  /** Positional arguments that aren't parameters of the path. */
  readonly args?: readonly string[];
  /** Members of the body that have no option. */
  readonly without?: readonly string[];
  /** Options that aren't members of the query or the body. */
  readonly options?: readonly Option[];
  readonly timeoutMs?: number;
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}

/** The reason why a command failed, as one line for the operator. */
export class CommandError extends Error {
  /** The status of the service's response, or null if there was no response. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.status = status;
  }
}
