/**
 * Tags that providers have, and that projects and keys can require
 * (docs/architecture/routing-and-failover.md#required-tags).
 */
import { z } from 'zod';

export const tagName = z.string().regex(/^[A-Za-z0-9._-]{1,63}$/, 'a tag must consist of 1 to 63 letters, digits, ".", "_" and "-"');

export const requiredTags = z.array(tagName).max(16);
