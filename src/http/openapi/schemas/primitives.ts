import { z } from 'zod';

export const time = z.string().meta({ format: 'date-time' });
export const id = z.string().meta({ format: 'uuid' });
export const usd = z.number().describe('USD');
export const count = z.int().min(0);
export const text = z.string().nullable();
export const windowName = z.enum(['minute', 'day', 'month', 'total']);

export const listSchema = (row: z.ZodType) => z.looseObject({ object: z.literal('list'), data: z.array(row) });

/** Optional fields that we forward without checking them, because the vendor does that. Null counts as absent. */
export const vendorText = z.string().nullable().optional();
export const vendorInteger = z.int().nullable().optional();
export const vendorNumber = z.number().nullable().optional();
