/**
 * Creates the error `no_route`. Its message is fixed (docs/api/reference.md#no-route), and its hint says what was
 * requested and what would work.
 */
import { type GatewayError, gatewayError } from '../core/errors.ts';

/** The maximum number of code points of a requested name that we repeat in a hint. */
const maxNameLength = 100;
/** We take them from this many characters at most, because a name may be as long as the body. */
const maxReadLength = 10 * maxNameLength;

const listing = 'GET /v1/models lists what this key may use';

export function noRoute(message: string | undefined, hint: string): GatewayError {
  return gatewayError('no_route', { ...(message !== undefined && { message }), members: { hint: `${hint}; ${listing}` } });
}

/**
 * Explains why no model is available. `reason` is the reason of a skipped model, or `unknown` for a name that's neither
 * a tier nor a model.
 */
export function explainNoRoute(asked: string, reason: string | null): string {
  const name = quoteName(asked);
  switch (reason) {
    case null:
      return `${name} has no models`;
    case 'unknown':
      return `unknown model ${name}`;
    case 'unknown_provider':
      return `no provider of ${name} is configured`;
    case 'provider_not_in_project':
      return `the project may not use a provider of ${name}`;
    case 'not_permitted_for_key':
      return `the key does not permit ${name}`;
    case 'price_unknown':
      return `${name} has no price, which a cost ceiling or cap requires`;
    default:
      return `${name} is not served on this route`;
  }
}

/** Quotes the start of a requested name. Limits its length and removes control characters. */
export function quoteName(name: string): string {
  const visible = [...name.slice(0, maxReadLength).replace(/\p{C}/gu, '')];
  return `"${visible.length > maxNameLength ? `${visible.slice(0, maxNameLength).join('')}...` : visible.join('')}"`;
}
