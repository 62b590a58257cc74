/**
 * Checks that the canaries refer to existing tiers and providers, and are of the same kind as the models of their tier.
 */

import { ownValue } from '../core/own-value.ts';
import type { Config } from './config.ts';
import type { AddError } from './yaml-file.ts';

type Sections = Pick<Config, 'canaries' | 'tiers' | 'models'>;

/**
 * A canary must be of the same kind as the other models of its tier. Models that aren't in the configuration may be
 * imported later, so they can't be checked here.
 */
export function checkCanaries({ canaries, tiers, models }: Sections, addError: AddError): void {
  const kindsOf = (ids: readonly string[]) => ids.flatMap((id) => models[id]?.kind ?? []);
  for (const [tier, { model }] of Object.entries(canaries)) {
    const chain = ownValue(tiers, tier);
    if (chain === undefined) {
      addError(['canaries', tier], `there is no tier ${tier}`);
      continue;
    }
    const [kind] = kindsOf([model]);
    const kinds = kindsOf(chain);
    if (kind === 'embeddings' || kinds.includes('embeddings'))
      addError(['canaries', tier], 'embeddings cannot have a canary, because vectors of two models cannot be compared');
    else if (kind !== undefined && kinds.length > 0 && !kinds.includes(kind))
      addError(['canaries', tier, 'model'], `is a model of kind ${kind}, but the tier has models of kind ${kinds[0]}`);
  }
}
