/**
 * Describes the multipart routes, i.e. their paths at the vendor and the fields that we read
 * (docs/api/reference.md#uploads).
 */
import type { MediaRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { getImageCount } from './image-speech.ts';

export interface UploadKind {
  /** We record and route translations as transcriptions. */
  readonly route: Extract<MediaRoute, 'images' | 'transcriptions'>;
  /** The path that we append to the vendor's base URL. */
  readonly path: '/images/edits' | '/audio/transcriptions' | '/audio/translations';
  /** The fields that we read. We forward all parts, no matter what the model accepts. */
  readonly fieldNames: ReadonlySet<string>;
  /** Names of the parts that may be files. Content rules don't check what's in a file. */
  readonly fileNames: ReadonlySet<string>;
}

const audioFile: ReadonlySet<string> = new Set(['file']);

export const uploadKinds = {
  edits: {
    route: 'images',
    path: '/images/edits',
    fieldNames: new Set(['model', 'prompt', 'n', 'size', 'response_format']),
    fileNames: new Set(['image', 'image[]', 'mask']),
  },
  transcriptions: {
    route: 'transcriptions',
    path: '/audio/transcriptions',
    fieldNames: new Set(['model', 'prompt']),
    fileNames: audioFile,
  },
  translations: { route: 'transcriptions', path: '/audio/translations', fieldNames: new Set(['model', 'prompt']), fileNames: audioFile },
} as const satisfies Record<string, UploadKind>;

/** A body that we forward to the vendor while the caller is still sending it. */
export interface UploadBody {
  readonly contentType: string;
  readonly lengthBytes: number;
  /** Throws if the upload is invalid or breaks off. */
  readonly chunks: AsyncIterable<Buffer>;
}

/** The values of the fields that have arrived so far. */
export type UploadFields = ReadonlyMap<string, string>;

/** Checks a field as soon as it arrives. Throws `missing_model` if the model is empty. */
export function checkUploadField(name: string, value: string): void {
  if (name === 'model' && value === '') throw gatewayError('missing_model');
}

/** Returns the number of images that the caller asked for. */
export function countEditedImages(fields: UploadFields): number {
  return getImageCount({ n: fields.get('n') ?? '1' });
}
