import { z } from 'zod';

/** The name of something that people create, such as a project or a key. */
export const nameInput = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not contain control characters');
