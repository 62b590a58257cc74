/**
 * Creates the error `no_route`. Its message is fixed (docs/api/reference.md#no-route), and its hint says what was
 * requested and what would work.
 */
import { type GatewayError, gatewayError } from '../core/errors.ts';
import type { Refusal } from '../core/refusal.ts';

/** How much of a requested name we quote, in code points. */
const maxNameLength = 100;
/** A caller can send a name of many megabytes. The start is enough for a quote. */
const maxReadLength = 10 * maxNameLength;

const listing = 'GET /v1/models lists the models and tiers that this key may use';

export function noRoute(message: string | undefined, hint: string, refusal: Refusal = { reason: 'no_model' }): GatewayError {
  return gatewayError('no_route', { ...(message !== undefined && { message }), members: { hint: `${hint}; ${listing}` }, refusal });
}

export interface Untagged {
  readonly provider: string;
  readonly lacks: readonly string[];
}

const maxListedProviders = 10;

/** Creates the error for a call that only fails because of missing tags. `untagged` may contain duplicates. */
export function lacksTags(asked: string, untagged: readonly Untagged[]): GatewayError {
  const byProvider = new Map(untagged.map(({ provider, lacks }) => [provider, lacks]));
  const listed = [...byProvider].slice(0, maxListedProviders).map(([provider, lacks]) => `${provider} (${lacks.join(', ')})`);
  const more = byProvider.size - listed.length;
  const message = `required tags are missing: ${listed.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const rule = [...new Set(untagged.flatMap(({ lacks }) => lacks))].join(', ');
  return noRoute(message, `no provider of ${quoteName(asked)} has all the tags that the project and the key require`, {
    reason: 'tags_missing',
    rule,
  });
}

/** Converts the reason why a model was skipped (see `explainNoRoute`) to the refusal that we record with the call. */
export function refusalOf(reason: string | null): Refusal {
  switch (reason) {
    case 'unknown':
    case 'unknown_provider':
      return { reason: 'model_unknown' };
    case 'provider_not_in_project':
      return { reason: 'provider_not_allowed' };
    case 'not_permitted_for_key':
      return { reason: 'model_not_permitted' };
    case 'price_unknown':
      return { reason: 'model_without_price' };
    default:
      return { reason: 'no_model' };
  }
}

/**
 * Explains why no model can serve a call. `reason` says why the model was skipped, or is `unknown` if the name is
 * neither a tier nor a model.
 */
export function explainNoRoute(asked: string, reason: string | null): string {
  const name = quoteName(asked);
  switch (reason) {
    case null:
      return `${name} has no models`;
    case 'unknown':
      return `unknown model ${name}`;
    case 'unknown_provider':
      return `no provider for ${name} is configured`;
    case 'provider_not_in_project':
      return `the project may not use any provider that serves ${name}`;
    case 'not_permitted_for_key':
      return `the key may not use ${name}`;
    case 'price_unknown':
      return `${name} has no price, but calls with a cost ceiling or monthly cap need one`;
    default:
      return `${name} is not available on this route`;
  }
}

/** Quotes the start of a requested name without control characters. */
export function quoteName(name: string): string {
  const visible = [...name.slice(0, maxReadLength).replace(/\p{C}/gu, '')];
  return `"${visible.length > maxNameLength ? `${visible.slice(0, maxNameLength).join('')}...` : visible.join('')}"`;
}
