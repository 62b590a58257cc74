/** Tiers as projects and applications set them. */
import { z } from 'zod';

/** Chains of models by tier name; they go over those of the configuration file, by name. */
export type Tiers = Readonly<Record<string, readonly string[]>>;

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s]+\/\S+$/, 'must be a model as <provider>/<model>');

const tierName = z
  .string()
  // One expression, so that the interface description says it too.
  .regex(/^(?!auto$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
    error: ({ input }) =>
      input === 'auto' ? '"auto" is no tier: it lets the gateway choose one' : 'a tier is named with letters, digits, ".", "_" and "-"',
  });

export const tiers = z.record(tierName, z.array(modelId).max(100)).describe('chains of models by tier; `auto` is no tier');
