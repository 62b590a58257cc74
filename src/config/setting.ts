import type { z } from 'zod';

/** Defines an optional setting. Its meaning and default are Markdown for the documentation. */
export function setting<Schema extends z.ZodType>(schema: Schema, meaning: string, byDefault?: string): z.ZodOptional<Schema> {
  return schema.optional().meta({ description: meaning, ...(byDefault !== undefined && { byDefault }) });
}
