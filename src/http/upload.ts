/**
 * Reads a multipart body while it arrives. We keep the body in memory until we've read the fields that the call needs,
 * which can mean all of it. Then we relay it as fast as the vendor accepts it. No byte is in memory twice.
 */
import type { IncomingMessage } from 'node:http';
import { gatewayError } from '../core/errors.ts';
import { createPartScanner, type PartTexts, type Piece } from '../dialects/media/multipart.ts';
import { checkUploadField, type UploadBody, type UploadFields } from '../dialects/media/uploads.ts';
import { type AuthorizeAgain, ClientDisconnectedError, type KeyBodies, limitDuration, maxBodyBytes, tooLarge } from './body.ts';

export interface Upload {
  readonly fields: UploadFields;
  readonly model: string;
  /** Returns how many images and masks have started to arrive so far. */
  readonly countImages: () => number;
  /** The size of the body, or the size that the caller has declared if the body hasn't arrived completely. */
  readonly bodyBytes: number;
  /**
   * Reads the rest of the body, so that `fields` is complete. Call this before you relay the body. Rejects with the
   * same errors as `readUpload`.
   */
  readonly readAll: () => Promise<void>;
  /** Returns the body with a different model name. You can only call this once. */
  readonly bodyFor: (model: string) => UploadBody;
  /**
   * Call this when the response is complete. Discards the rest of the request, so that the connection can be reused.
   */
  readonly release: () => void;
}

/**
 * Returns the boundary of a `multipart/form-data` body. Throws `unsupported_media_type` if the type is different or the
 * body is encoded.
 */
export function parseBoundary({ headers }: IncomingMessage): string {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (encoding.toLowerCase() !== 'identity')
    throw gatewayError('unsupported_media_type', { message: 'bodies with content-encoding are not supported; send the body uncompressed' });
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^\s"\\;,]{1,70})"|([^\s"\\;,]{1,70}))\s*(?:;|$)/i.exec(type);
  const boundary = match?.[1] ?? match?.[2];
  if (boundary === undefined) throw gatewayError('unsupported_media_type', { message: 'content type must be multipart/form-data' });
  return boundary;
}

/**
 * Each piece takes about this much memory in addition to its bytes. If we didn't count that, a caller that sends single
 * bytes could use up gigabytes.
 */
const pieceOverhead = 200;

export interface UploadOptions {
  readonly boundary: string;
  readonly fieldNames: ReadonlySet<string>;
  readonly refusedNames: ReadonlySet<string>;
  /**
   * Collects the text that content rules check. Null if there are no rules. With rules, we have to read the whole body
   * before we call the vendor, because any field could match.
   */
  readonly collected: PartTexts | null;
  readonly memory: KeyBodies;
  /** Called before `readUpload` and `readAll` return, because the body may take minutes to arrive. */
  readonly authorizeAgain: AuthorizeAgain;
}

/**
 * Reads the body until we know which model the request is for. Rejects with `missing_model`, with `bad_json` if the
 * body is malformed, with `budget_unavailable`, with ClientDisconnectedError, with a 413 in plain text, or with the
 * error of `authorizeAgain`.
 */
export async function readUpload(request: IncomingMessage, options: UploadOptions): Promise<Upload> {
  const { boundary, fieldNames, refusedNames, collected, memory, authorizeAgain } = options;
  const { 'content-length': declaredLength } = request.headers;
  const declaredBytes = declaredLength === undefined ? null : Number(declaredLength);
  if (declaredBytes !== null && declaredBytes > maxBodyBytes) throw tooLarge(maxBodyBytes);
  const scanner = createPartScanner(boundary, fieldNames, collected, refusedNames);
  const chunks = readChunks(request);
  const fields = new Map<string, string>();
  const held: Piece[] = [];
  let modelBytes = 0;
  let readBytes = 0;
  let heldBytes = 0;
  let isComplete = false;

  const readPieces = async (): Promise<readonly Piece[]> => {
    const chunk = await chunks.next();
    if (chunk === null) {
      isComplete = true;
      scanner.end();
      return [];
    }
    readBytes += chunk.length;
    if (readBytes > maxBodyBytes) throw tooLarge(maxBodyBytes);
    const pieces = scanner.push(chunk);
    for (const piece of pieces) {
      if (piece.kind !== 'field') continue;
      const value = piece.value.toString('utf8');
      checkUploadField(piece.name, value);
      fields.set(piece.name, value);
      if (piece.name === 'model') modelBytes = piece.value.length;
    }
    return pieces;
  };

  const holdPieces = async (): Promise<void> => {
    const before = readBytes;
    const pieces = await readPieces();
    const added = readBytes - before + pieces.length * pieceOverhead;
    memory.hold(added);
    heldBytes += added;
    held.push(...pieces);
  };

  const release = (): void => {
    chunks.stop();
    memory.release(heldBytes);
    heldBytes = 0;
  };

  try {
    // Vendors need to know the length in advance. If the client hasn't declared it, we have to read the whole body
    // first.
    while (!isComplete && (collected !== null || declaredBytes === null || !fields.has('model'))) await holdPieces();
    await authorizeAgain();
    const model = fields.get('model');
    if (model === undefined) throw gatewayError('missing_model');
    const bodyBytes = declaredBytes ?? readBytes;
    return {
      fields,
      model,
      countImages: scanner.countImages,
      bodyBytes,
      readAll: async () => {
        while (!isComplete) await holdPieces();
        await authorizeAgain();
      },
      bodyFor: (vendorModel) => relay(Buffer.from(vendorModel), bodyBytes - modelBytes),
      release,
    };
  } catch (error) {
    release();
    throw error;
  }

  function relay(model: Buffer, otherBytes: number): UploadBody {
    async function* relayed(): AsyncGenerator<Buffer, void> {
      for (let pieces: readonly Piece[] = held.splice(0); ; pieces = await readPieces()) {
        for (const piece of pieces) {
          if (piece.kind === 'bytes') yield piece.bytes;
          else yield Buffer.concat([piece.head, piece.name === 'model' ? model : piece.value]);
        }
        if (isComplete) return;
      }
    }
    const contentType = `multipart/form-data; boundary="${boundary}"`;
    return { contentType, lengthBytes: otherBytes + model.length, chunks: relayed() };
  }
}

interface ChunkReader {
  /** Returns null at the end of the body. Rejects with ClientDisconnectedError. */
  next(): Promise<Buffer | null>;
  /** Discards the rest of the request. Node only does this itself if nobody has started to read. */
  stop(): void;
}

/**
 * Reads chunks on demand. We don't use the request's own iterator, because it closes the connection if we stop early,
 * and then we couldn't send a response.
 */
function readChunks(request: IncomingMessage): ChunkReader {
  let waiting: { resolve: (chunk: Buffer | null) => void; reject: (error: Error) => void } | null = null;
  const settle = (act: (consumer: NonNullable<typeof waiting>) => void): void => {
    const consumer = waiting;
    waiting = null;
    if (consumer) act(consumer);
  };
  const timer = limitDuration(request);
  const onEnd = (): void => {
    clearTimeout(timer);
    settle(({ resolve }) => resolve(null));
  };
  const onClose = (): void => {
    clearTimeout(timer);
    settle(({ reject }) => reject(new ClientDisconnectedError()));
  };
  const advance = (): void => {
    if (!waiting) return;
    const chunk: Buffer | null = request.read();
    if (chunk !== null) settle(({ resolve }) => resolve(chunk));
    else if (request.readableEnded) onEnd();
    else if (request.destroyed) onClose();
  };
  let isScheduled = false;
  // Process everything that has arrived at once. With chunked encoding, each event may contain a single byte, and
  // handling them one by one would block other calls.
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      advance();
    });
  };
  request.on('readable', schedule).on('end', onEnd).on('close', onClose).on('error', onClose);
  return {
    next: () =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        schedule();
      }),
    stop() {
      request.off('readable', schedule).off('end', onEnd);
      onClose();
      request.resume();
    },
  };
}
