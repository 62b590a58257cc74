/**
 * The body of a vendor's response. Even if HTTP has split bytes, they become a single chunk if they arrive together.
 * This way the reader only wakes up and writes once. If it's slow, we pause the connection. All errors are
 * VendorErrors.
 */
import { VendorError } from '../core/errors.ts';

export interface ResponseBody {
  /**
   * Returns all bytes that have arrived, or null if there aren't any. Throws `broken`, `aborted`, or the error that was
   * passed to `destroy`.
   */
  take(): Buffer | null;
  /** True once everything has been read. */
  isEnded(): boolean;
  /**
   * Resolves when bytes have arrived, and also when the body has ended or failed. There can only be one reader waiting.
   */
  arrival(): Promise<void>;
  /** Waits for the whole body. Throws the same errors as `take`, and `unreadable` if it's larger than `limitBytes`. */
  readAll(limitBytes: number): Promise<Buffer>;
  /**
   * Short bodies often arrive together with their headers. Returns the whole body in that case. Returns null if it's
   * incomplete, empty or larger than `limitBytes`.
   */
  takeComplete(limitBytes: number): Buffer | null;
  /** Closes the connection unless the body is already complete. */
  destroy(error?: VendorError): void;
  /**
   * Call this if you don't want to read the whole body. If there isn't much left, we read the rest so that the
   * connection can be reused. Otherwise we close it.
   */
  release(): void;
}

/** The connection that the bytes come from. */
export interface BodySource {
  pause(): void;
  resume(): void;
  abort(error: VendorError): void;
}

/** A body with the functions that the connection uses to fill it. */
export interface IncomingBody extends ResponseBody {
  add(chunk: Buffer): void;
  end(): void;
  fail(error: VendorError): void;
}

/** If this much is waiting for the reader, we pause the connection. */
const highWaterBytes = 64 * 1024;
/** After the last event of a stream, there should be nothing but line breaks. We read no more than this. */
const maxDrainBytes = 16 * 1024;

export function createResponseBody(source: BodySource): IncomingBody {
  let chunks: Buffer[] = [];
  let size = 0;
  let maxBytes = highWaterBytes;
  let isPaused = false;
  /** How many bytes have arrived since `release`. Null if nobody has called it. */
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

/**
 * Yields a body with backpressure, and throws the same errors as `take`. If the consumer stops early, we abort the
 * vendor's request.
 */
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
