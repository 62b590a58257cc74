/**
 * The body of a vendor's response. Bytes that arrive together are one chunk, whatever chunks HTTP made of them: its reader is woken, and
 * writes, once for all of them.
 *
 * A reader that is too slow pauses the connection. Every error is a VendorError.
 */
import { VendorError } from '../core/errors.ts';

export interface ResponseBody {
  /** The bytes that have arrived. Null when there are none. Throws `broken`, `aborted` and what `destroy` was called with. */
  take(): Buffer | null;
  /** No bytes will arrive any more. */
  isEnded(): boolean;
  /** Resolves when bytes have arrived, or the body has ended or failed. For one reader at a time. */
  arrival(): Promise<void>;
  /** The whole body. Throws `unreadable` when it is larger than `limitBytes`, and like `take`. */
  readAll(limitBytes: number): Promise<Buffer>;
  /** The whole body if it has arrived, as a short one often does with its headers. Null if it has not, is empty or is larger than `limitBytes`. */
  takeComplete(limitBytes: number): Buffer | null;
  /** Closes the connection, unless the body is complete. */
  destroy(error?: VendorError): void;
  /** Call unless the body was read to its end. Drains a short remainder, so that the connection is reused; a longer one closes it. */
  release(): void;
}

/** The connection that a body arrives on. */
export interface BodySource {
  pause(): void;
  resume(): void;
  abort(error: VendorError): void;
}

/** A body, and what its connection reports. */
export interface IncomingBody extends ResponseBody {
  add(chunk: Buffer): void;
  end(): void;
  fail(error: VendorError): void;
}

/** Bytes that wait for the reader before the connection is paused. */
const highWaterBytes = 64 * 1024;
/** After the last event of a stream there is at most a line end. */
const maxDrainBytes = 16 * 1024;

export function createResponseBody(source: BodySource): IncomingBody {
  let chunks: Buffer[] = [];
  let size = 0;
  let maxBytes = highWaterBytes;
  let isPaused = false;
  /** Bytes since `release`; null before. */
  let drainedBytes: number | null = null;
  let isEnded = false;
  let failure: VendorError | null = null;
  let wake: (() => void) | null = null;

  const nextArrival = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  const wakeReader = (): void => {
    wake?.();
    wake = null;
  };
  const takeAll = (): Buffer => {
    const [only] = chunks;
    const bytes = only && chunks.length === 1 ? only : Buffer.concat(chunks, size);
    chunks = [];
    size = 0;
    if (isPaused) {
      isPaused = false;
      source.resume();
    }
    return bytes;
  };
  const destroy = (error = new VendorError('aborted', 'the response was not read to its end')): void => {
    if (isEnded || failure) return;
    failure = error;
    chunks = [];
    size = 0;
    source.abort(error);
    wakeReader();
  };

  return {
    take() {
      if (size > 0) return takeAll();
      if (failure) throw failure;
      return null;
    },
    isEnded: () => isEnded && size === 0,
    arrival: () => (size > 0 || isEnded || failure ? Promise.resolve() : nextArrival()),
    async readAll(limitBytes) {
      maxBytes = Number.POSITIVE_INFINITY;
      if (isPaused) {
        isPaused = false;
        source.resume();
      }
      while (!isEnded && !failure && size <= limitBytes) await nextArrival();
      if (size > limitBytes) {
        const error = new VendorError('unreadable', `the response is larger than ${limitBytes} bytes`);
        destroy(error);
        throw error;
      }
      if (failure) throw failure;
      return takeAll();
    },
    takeComplete: (limitBytes) => (isEnded && !failure && size > 0 && size <= limitBytes ? takeAll() : null),
    destroy,
    release() {
      drainedBytes = size;
      takeAll();
      if (drainedBytes > maxDrainBytes) destroy();
    },
    add(chunk) {
      if (drainedBytes !== null) {
        drainedBytes += chunk.length;
        if (drainedBytes > maxDrainBytes) destroy();
        return;
      }
      chunks.push(chunk);
      size += chunk.length;
      if (size >= maxBytes && !isPaused) {
        isPaused = true;
        source.pause();
      }
      wakeReader();
    },
    end() {
      isEnded = true;
      wakeReader();
    },
    fail(error) {
      failure ??= error;
      wakeReader();
    },
  };
}

/** Relays a body with back pressure. Throws like `take`; returning it early ends the vendor's request. */
export async function* relayBody(body: ResponseBody): AsyncGenerator<Buffer, void> {
  try {
    while (!body.isEnded()) {
      const chunk = body.take();
      if (chunk === null) await body.arrival();
      else yield chunk;
    }
  } finally {
    body.destroy();
  }
}
