/**
 * Describes the routes with multipart bodies, i.e. their paths at the vendor and the fields that we read
 * (docs/api/reference.md#uploads).
 */
import type { MediaRoute } from '../../core/call.ts';
import { gatewayError } from '../../core/errors.ts';
import { getImageCount } from './image-speech.ts';

export interface UploadKind {
  /** Translations don't have a route of their own, so they're routed and recorded as transcriptions. */
  readonly route: Extract<MediaRoute, 'images' | 'transcriptions'>;
  readonly path: '/images/edits' | '/audio/transcriptions' | '/audio/translations';
  /** The form fields that the gateway reads. All other parts are forwarded as well. */
  readonly fieldNames: ReadonlySet<string>;
  /** The form fields that can contain files. Content rules don't check the contents of these files. */
  readonly fileNames: ReadonlySet<string>;
  /** The form fields that we refuse. */
  readonly refusedNames: ReadonlySet<string>;
}

const audioFile: ReadonlySet<string> = new Set(['file']);
/**
 * Groq and Mistral accept the address of a recording, or the id of a stored file. We couldn't tell how long such a
 * recording is, so a caller could exceed a cost ceiling.
 */
const audioAddresses: ReadonlySet<string> = new Set(['url', 'file_url', 'file_id', 'audio_url']);

export const uploadKinds = {
  edits: {
    route: 'images',
    path: '/images/edits',
    fieldNames: new Set(['model', 'prompt', 'n', 'size', 'response_format']),
    fileNames: new Set(['image', 'image[]', 'mask']),
    refusedNames: new Set(),
  },
  transcriptions: {
    route: 'transcriptions',
    path: '/audio/transcriptions',
    fieldNames: new Set(['model', 'prompt']),
    fileNames: audioFile,
    refusedNames: audioAddresses,
  },
  translations: {
    route: 'transcriptions',
    path: '/audio/translations',
    fieldNames: new Set(['model', 'prompt']),
    fileNames: audioFile,
    refusedNames: audioAddresses,
  },
} as const satisfies Record<string, UploadKind>;

/** The body of an upload, which is forwarded to the vendor while the caller is still sending. */
export interface UploadBody {
  readonly contentType: string;
  readonly lengthBytes: number;
  /** Iterating throws if the upload is invalid or cut off. */
  readonly chunks: AsyncIterable<Buffer>;
}

export type UploadFields = ReadonlyMap<string, string>;

/** Called for each field as soon as it arrives. Throws `missing_model` if the model is empty. */
export function checkUploadField(name: string, value: string): void {
  if (name === 'model' && value === '') throw gatewayError('missing_model');
}

export function countEditedImages(fields: UploadFields): number {
  return getImageCount({ n: fields.get('n') ?? '1' });
}
