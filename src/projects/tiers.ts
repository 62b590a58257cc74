/**
 * Tiers of projects and applications, which override tiers of the configuration with the same name.
 */
import { z } from 'zod';
import type { Tiers } from '../core/call.ts';
import { nameError } from '../core/name.ts';

const modelId = z
  .string()
  .max(300)
  .regex(/^[^/\s\p{Cc}\p{Cs}]+\/[^\s\p{Cc}\p{Cs}]+$/u, nameError('must be a model as <provider>/<model>'));

const tierName = z
  .string()
  // Exclude `auto` in the same expression, so that the OpenAPI schema contains this rule as well.
  .regex(/^(?!auto$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
    error: ({ input }) =>
      input === 'auto'
        ? '"auto" is reserved: it lets the gateway choose a tier'
        : 'a tier name may only contain letters, digits, ".", "_" and "-"',
  });

const tiers = z.record(tierName, z.array(modelId).max(100)).describe('chains of models by tier; the name `auto` is reserved');

export const tierKinds = ['tiers', 'image_tiers', 'speech_tiers', 'transcription_tiers'] as const;
export type TierKind = (typeof tierKinds)[number];

export type TierSets = Readonly<Record<TierKind, Tiers>>;

export interface TierSettings {
  readonly tiers: Tiers;
  readonly imageTiers: Tiers;
  readonly speechTiers: Tiers;
  readonly transcriptionTiers: Tiers;
}

export const tierFields = { tiers, image_tiers: tiers, speech_tiers: tiers, transcription_tiers: tiers };

/** Don't validate the names, because older versions accepted more of them. */
const stored = z.record(z.string(), z.array(z.string())).default({});
export const storedTierFields = { tiers: stored, image_tiers: stored, speech_tiers: stored, transcription_tiers: stored };

export function toTierSettings({ tiers, image_tiers, speech_tiers, transcription_tiers }: TierSets): TierSettings {
  return { tiers, imageTiers: image_tiers, speechTiers: speech_tiers, transcriptionTiers: transcription_tiers };
}

export function toTierSets({ tiers, imageTiers, speechTiers, transcriptionTiers }: TierSettings): TierSets {
  return { tiers, image_tiers: imageTiers, speech_tiers: speechTiers, transcription_tiers: transcriptionTiers };
}
