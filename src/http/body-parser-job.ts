/** The job of `body-parser.ts` in the low-priority thread. */
import { type ErrorCode, GatewayError } from '../core/errors.ts';
import { PlainTextError, type PlainTextStatus } from './plain-text-error.ts';

export interface UnparsedBody<Options> {
  readonly module: string;
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly options: Options;
}

/** What we need to create the error again, because custom error classes don't survive the transfer between threads. */
export interface RefusedBody {
  readonly refused: { readonly message: string } & ({ readonly code: ErrorCode } | { readonly status: PlainTextStatus });
}

export async function parseInThread<Options, Result>({
  module,
  name,
  bytes: { buffer, byteOffset, byteLength },
  options,
}: UnparsedBody<Options>): Promise<Result | RefusedBody> {
  const { [name]: parse } = await import(module);
  try {
    return parse(Buffer.from(buffer, byteOffset, byteLength), options);
  } catch (error) {
    if (error instanceof GatewayError) return { refused: { code: error.code, message: error.message } };
    if (error instanceof PlainTextError) return { refused: { status: error.status, message: error.message } };
    throw error;
  }
}
