/** Searches a piece of a prompt for images, escaped letters, and references to input outside of the body. */
import { hidesAscii } from '../../dialects/json/body-members.ts';
import type { References } from '../../dialects/json/known-regions.ts';
import { findReferences } from '../../dialects/routes/outside-input.ts';
import { countImageParts } from '../../dialects/routes/request-features.ts';

export interface Found {
  readonly images: number;
  readonly references: References;
  readonly hidesAscii: boolean;
}

export function searchPrompt(bytes: Buffer): Found {
  return { images: countImageParts(bytes), references: findReferences(bytes), hidesAscii: hidesAscii(bytes) };
}

export function joinFound(one: Found, other: Found): Found {
  const { references: a } = one;
  const { references: b } = other;
  return {
    images: one.images + other.images,
    hidesAscii: one.hidesAscii || other.hidesAscii,
    references: {
      hasTypes: a.hasTypes || b.hasTypes,
      hasReference: a.hasReference || b.hasReference,
      hasItemById: a.hasItemById || b.hasItemById,
      hasDocument: a.hasDocument || b.hasDocument,
      hasDocumentSource: a.hasDocumentSource || b.hasDocumentSource,
      hasCacheMark: a.hasCacheMark || b.hasCacheMark,
      hasAddedTools: a.hasAddedTools || b.hasAddedTools,
    },
  };
}
