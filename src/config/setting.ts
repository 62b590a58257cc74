import type { z } from 'zod';

/** Defines an optional setting. The documentation shows `meaning` and `byDefault`, so write them in Markdown. */
export function setting<Schema extends z.ZodType>(schema: Schema, meaning: string, byDefault?: string): z.ZodOptional<Schema> {
  return schema.optional().meta({ description: meaning, ...(byDefault !== undefined && { byDefault }) });
}
