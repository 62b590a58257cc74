/** The multipart routes: their paths at the vendor, and the fields that the gateway reads (docs/api/reference.md#uploads). Pure. */
import type { MediaRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { getImageCount } from './image-speech.ts';

export interface UploadKind {
  /** Translations are recorded and routed as transcriptions. */
  readonly route: Extract<MediaRoute, 'images' | 'transcriptions'>;
  /** Path after the vendor's base URL. */
  readonly path: '/images/edits' | '/audio/transcriptions' | '/audio/translations';
  /** Fields that are read. All parts are forwarded, whatever the model takes. */
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

/** A body that is sent while it arrives from the caller. */
export interface UploadBody {
  readonly contentType: string;
  readonly lengthBytes: number;
  /** Throws the error of an upload that is invalid or breaks off. */
  readonly chunks: AsyncIterable<Buffer>;
}

/** Values of the fields that have arrived. */
export type UploadFields = ReadonlyMap<string, string>;

/** Checks a field as soon as it arrives. Throws `missing_model`. */
export function checkUploadField(name: string, value: string): void {
  if (name === 'model' && value === '') throw gatewayError('missing_model');
}

/** Number of requested images. */
export function countEditedImages(fields: UploadFields): number {
  return getImageCount({ n: fields.get('n') ?? '1' });
}
