/** What a command is, and a command as it was given. */
import type { JsonObject } from '../core/json/narrow.ts';
import type { OptionName, OptionValues } from './options.ts';
import type { ServiceClient } from './service-client.ts';

export interface CommandOutput {
  write(text: string): void;
  writeError(text: string): void;
  /** Standard output for what is too long to be held; absent where none is written. */
  readonly stream?: NodeJS.WritableStream;
}

/** A command as it was given. */
export interface Invocation {
  readonly client: ServiceClient;
  readonly values: OptionValues;
  /** Positional arguments by name. */
  readonly args: Readonly<Record<string, string | undefined>>;
  /** Members of the body or query that the options set. */
  readonly members: JsonObject;
  /** Sends an operation of the command, with the parameters of its path filled in. Throws CommandError when one is missing. */
  send(operation: string, body?: JsonObject, timeoutMs?: number): Promise<JsonObject>;
  /** As `send`, with a body of any length. */
  upload(operation: string, chunks: AsyncIterable<Uint8Array>): Promise<JsonObject>;
  /** As `send`, for a response of any length. */
  download(operation: string): AsyncIterable<Uint8Array>;
  readonly warn: (text: string) => void;
  readonly output: CommandOutput;
}

export interface Command {
  readonly summary: string;
  /** Positional arguments: names by the path parameter that they fill. */
  readonly args?: Readonly<Record<string, string>>;
  readonly options?: readonly OptionName[];
  /** Operations of the API that the command calls. Without `run` it calls the first whose path parameters are all given. */
  readonly operations: readonly string[];
  readonly run?: (invocation: Invocation) => Promise<JsonObject>;
  readonly format: (response: JsonObject, invocation: Invocation) => string;
}
