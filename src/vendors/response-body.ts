/**
 * The body of a vendor's response. Even if HTTP has split bytes, they become a single chunk if they arrive together.
 * This way the reader only wakes up and writes once. If it's slow, we pause the connection. All errors are
 * VendorErrors.
 */
import { VendorError } from '../core/errors.ts';

export class ResponseTooLargeError extends VendorError {
  constructor(limitBytes: number) {
    super('unreadable', `the response is larger than ${limitBytes} bytes`, { mayBeBilled: true });
  }
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: ResponseBody;
}

export interface ResponseBody {
  /**
   * Returns all bytes that have arrived, or null if there aren't any. Throws `broken`, `aborted`, or the error that was
   * passed to `destroy`.
   */
  take(): Buffer | null;
  /** True once the body has ended and all of its bytes have been taken. */
  isEnded(): boolean;
  /** Resolves when bytes have arrived, or when the body has ended or failed. Only one reader can wait at a time. */
  arrival(): Promise<void>;
  /** Waits for the whole body. Throws the same errors as `take`, and `unreadable` if it's larger than `limitBytes`. */
  readAll(limitBytes: number): Promise<Buffer>;
  /**
   * Returns the whole body if it has already arrived. Short bodies often arrive together with their headers. Returns
   * null if it's incomplete, empty or larger than `limitBytes`.
   */
  takeComplete(limitBytes: number): Buffer | null;
  /** Closes the connection unless the body is already complete. */
  destroy(error?: VendorError): void;
  /**
   * Gives up the rest of the body. If not much is left, it's read so that the connection can be reused. Otherwise the
   * connection is closed.
   */
  release(): void;
}

export interface BodySource {
  pause(): void;
  resume(): void;
  abort(error: VendorError): void;
}

export interface IncomingBody extends ResponseBody {
  add(chunk: Buffer): void;
  end(): void;
  fail(error: VendorError): void;
}

/** The connection is paused while this many bytes are waiting for the reader. */
const highWaterBytes = 64 * 1024;
/** After the last event of a stream, only a few line breaks should follow, so we don't read more than this. */
const maxDrainBytes = 16 * 1024;

export function createResponseBody(source: BodySource): IncomingBody {
  let chunks: Buffer[] = [];
  let size = 0;
  let maxBytes = highWaterBytes;
  let isPaused = false;
  /** How many bytes we've discarded since `release` was called. Null before that. */
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
  const destroy = (error = new VendorError('aborted', 'the response was not read to the end')): void => {
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
        const error = new ResponseTooLargeError(limitBytes);
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
 * Yields a body with backpressure. Throws the same errors as `take`. If the consumer stops early, the vendor's request
 * is aborted.
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
