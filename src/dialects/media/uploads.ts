/**
 * Describes the routes with multipart bodies, i.e. their paths at the vendor and the fields that we read
 * (docs/api/reference.md#uploads).
 */
import type { MediaRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { getImageCount } from './image-speech.ts';

export interface UploadKind {
  /** Translations don't have a route of their own, so we record them as transcriptions. */
  readonly route: Extract<MediaRoute, 'images' | 'transcriptions'>;
  /** Appended to the vendor's base URL. */
  readonly path: '/images/edits' | '/audio/transcriptions' | '/audio/translations';
  /** The fields that we read. We forward all other parts as well, even if we don't know them. */
  readonly fieldNames: ReadonlySet<string>;
  /** Only these parts can be files. Content rules don't look into them. */
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

/** The body of an upload. We forward it to the vendor while the caller is still sending. */
export interface UploadBody {
  readonly contentType: string;
  readonly lengthBytes: number;
  /** Iterating throws if the upload is invalid or cut off. */
  readonly chunks: AsyncIterable<Buffer>;
}

/** The form fields that have arrived so far. */
export type UploadFields = ReadonlyMap<string, string>;

/** Called for each field as soon as it arrives. Throws `missing_model` if the model is empty. */
export function checkUploadField(name: string, value: string): void {
  if (name === 'model' && value === '') throw gatewayError('missing_model');
}

/** Returns the number of images that the caller asked for. */
export function countEditedImages(fields: UploadFields): number {
  return getImageCount({ n: fields.get('n') ?? '1' });
}
