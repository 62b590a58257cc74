/** The job of `body-parser.ts` in the low-priority thread. */
import { toBuffer } from '../core/low-priority-thread.ts';
import { PlainTextError, type PlainTextStatus } from './plain-text-error.ts';

export interface UnparsedBody<Options> {
  readonly module: string;
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly options: Options;
}

/** What we need to create the PlainTextError again, because it doesn't survive the transfer between threads. */
export interface RefusedBody {
  readonly refused: { readonly status: PlainTextStatus; readonly message: string };
}

export async function parseInThread<Options, Result>({
  module,
  name,
  bytes,
  options,
}: UnparsedBody<Options>): Promise<Result | RefusedBody> {
  const { [name]: parse } = await import(module);
  try {
    return parse(toBuffer(bytes), options);
  } catch (error) {
    if (!(error instanceof PlainTextError)) throw error;
    return { refused: { status: error.status, message: error.message } };
  }
}
