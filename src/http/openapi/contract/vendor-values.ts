/** Members as vendors document them. The gateway forwards them unchanged, and the vendor rejects invalid values; null counts as absent. */
import { z } from 'zod';

export const vendorText = z.string().nullable().optional();
export const vendorInteger = z.int().nullable().optional();
export const vendorNumber = z.number().nullable().optional();
