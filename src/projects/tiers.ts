/**
 * Tiers that projects and applications define. They override those of the configuration file that have the same name.
 */
import { z } from 'zod';

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s]+\/\S+$/, 'must be a model as <provider>/<model>');

const tierName = z
  .string()
  // We use a single expression, so that the OpenAPI schema can include it.
  .regex(/^(?!auto$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
    error: ({ input }) =>
      input === 'auto'
        ? '"auto" is reserved: it lets the gateway choose a tier'
        : 'a tier name consists of letters, digits, ".", "_" and "-"',
  });

export const tiers = z.record(tierName, z.array(modelId).max(100)).describe('chains of models by tier; the name `auto` is reserved');
