/** What a command is, and a command as it was given. */
import type { Option } from 'commander';
import type { JsonObject } from '../core/json/narrow.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** Standard output for what is too long to be held; absent where none is written. */
  readonly stream?: NodeJS.WritableStream;
}

/** A command as it was given. */
export interface Invocation {
  /** The parsed options by their names in camel case. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Positional arguments by name. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** Members of the query or the body that the options, the arguments and `--file` set. */
  readonly members: JsonObject;
  /** Sends an operation with the parameters of its path and query filled in, and its body from `members` unless given. Throws CommandError. */
  send(address: string, body?: JsonObject): Promise<JsonObject>;
  /** As `send`, with a body of any length. */
  upload(address: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** As `send`, for a response of any length. */
  download(address: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /** Operations that it calls, such as `get /provision/teams`. Without `run` it calls the first whose path parameters are all given. */
  readonly operations: readonly string[];
  /** Positional arguments that are not parameters of the path. */
  readonly args?: readonly string[];
  /** Members of the body that have no option. */
  readonly without?: readonly string[];
  /** Options that are not members of the query or body. */
  readonly options?: readonly Option[];
  readonly timeoutMs?: number;
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}

/** Why a command failed, as one line for the operator. */
export class CommandError extends Error {
  /** Status of the service's response; null without a response. */
  readonly status: number | null;

  constructor(message: string, status: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.name = 'CommandError';
    this.status = status;
  }
}
