/** Checks admin tokens, and limits the number of failures per address. */
import { timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { sha256 } from '../core/sha256.ts';
import type { Clock } from '../core/time.ts';

export type TokenCheck = 'valid' | 'invalid' | 'limited';

const maxFailures = 10;
export const failureWindowMs = 60_000;
/**
 * Limits the number of addresses that we remember, so that the map can't grow forever. An attacker with more addresses
 * than this gets extra guesses, but still won't guess a random token.
 */
const maxAddresses = 10_000;

/**
 * Returns a function that checks a token. After ten wrong tokens from the same address within a minute, it returns
 * `limited` for wrong tokens until the minute is over. It always accepts the right token, because all clients behind a
 * reverse proxy have the same address.
 */
export function createTokenCheck(adminTokens: readonly string[], clock: Clock): (token: string, address: string) => TokenCheck {
  const expected = adminTokens.map(sha256);
  const failures = new LRUCache<string, { readonly since: number; readonly count: number }>({ max: maxAddresses });
  return (token, address) => {
    // Compare hashes, so that the timing doesn't reveal the token's length or content.
    const given = sha256(token);
    if (expected.filter((each) => timingSafeEqual(given, each)).length > 0) return 'valid';
    const now = clock.now();
    const recorded = failures.get(address);
    const recent = recorded !== undefined && now - recorded.since < failureWindowMs ? recorded : { since: now, count: 0 };
    if (recent.count >= maxFailures) return 'limited';
    failures.set(address, { since: recent.since, count: recent.count + 1 });
    return 'invalid';
  };
}
