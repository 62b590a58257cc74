import type { z } from 'zod';

/** Defines an optional setting with its meaning and its default, both in Markdown. */
export function setting<Schema extends z.ZodType>(schema: Schema, meaning: string, byDefault?: string): z.ZodOptional<Schema> {
  return schema.optional().meta({ description: meaning, ...(byDefault !== undefined && { byDefault }) });
}
