/**
 * The `sign_in_failures` table, which limits how often somebody can guess a secret. It's in the database so that the
 * limit applies across processes. We count each attempt before we check the secret, and take it back if the secret was
 * right.
 */
import { isIPv6 } from 'node:net';
import { sha256 } from '../core/sha256.ts';
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';

const windowMs = 15 * 60_000;

export interface LimitKey {
  readonly hash: Buffer;
  readonly max: number;
}

export function createAttemptLimit({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  const countOne = async ({ hash, max }: LimitKey): Promise<number | null> => {
    const now = clock.now();
    const [row] = await database.query<{ failures: number; endsAt: Date }>(
      `insert into sign_in_failures (key_sha256, failures, window_ends_at)
       values ($1::bytea, 1, $3::timestamptz)
       on conflict (key_sha256) do update set
         failures = case when sign_in_failures.window_ends_at <= $2::timestamptz then 1 else sign_in_failures.failures + 1 end,
         window_ends_at = case when sign_in_failures.window_ends_at <= $2::timestamptz then $3::timestamptz else sign_in_failures.window_ends_at end
       returning failures, window_ends_at as "endsAt"`,
      [hash, new Date(now), new Date(now + windowMs)],
    );
    return row && row.failures > max ? row.endsAt.getTime() : null;
  };

  return {
    /**
     * Counts an attempt for each key, in order. If a key has had too many, returns when the next attempt is allowed,
     * otherwise null. We don't count the attempt for the keys after that one, so put the network address first. It
     * can't be made up, unlike e.g. an email address, so nobody can add a row to the table with each blocked attempt.
     */
    async count(keys: readonly LimitKey[]): Promise<number | null> {
      for (const key of keys) {
        const until = await countOne(key);
        if (until !== null) return until;
      }
      return null;
    },
    async clear({ hash }: LimitKey): Promise<void> {
      await database.query('delete from sign_in_failures where key_sha256 = $1::bytea', [hash]);
    },
    async takeBack({ hash }: LimitKey): Promise<void> {
      await database.query('update sign_in_failures set failures = failures - 1 where key_sha256 = $1::bytea and failures > 0', [hash]);
    },
  };
}

/**
 * Returns the key under which attempts are counted. `kind` is part of the key, so that e.g. an account and a network
 * address never share a counter.
 */
export function limitKey(kind: string, value: string, max: number): LimitKey {
  return { hash: sha256(`${kind} ${value}`), max };
}

/**
 * Returns the network of an address, by which attempts are counted. IPv6 clients usually control a whole /64, so
 * addresses within one are treated as the same.
 */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address;
  const [head = '', tail] = address.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const groups = tail === undefined ? [...head] : [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  return groups.slice(0, 4).join(':');
}
