/**
 * Members of a body as vendors document them. The gateway passes them on as they are written, and what a vendor does not take it refuses;
 * null counts as absent.
 */
import { z } from 'zod';

export const vendorText = z.string().nullable().optional();
export const vendorInteger = z.int().nullable().optional();
export const vendorNumber = z.number().nullable().optional();
