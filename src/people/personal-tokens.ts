/**
 * The `personal_tokens` table. A token looks like `gwp_<prefix>_<secret>`. The prefix is public and identifies the
 * token. We only store the SHA-256 of the whole token. Each request looks up its token in the database, so if we revoke
 * a token or disable its person, it stops working in every process immediately.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { gatewayError } from '../core/errors.ts';
import { newId } from '../core/ids.ts';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { sha256 } from '../core/sha256.ts';
import { type Clock, dayMs } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { shownEmailSql } from './confirm.ts';
import type { Person } from './person.ts';
import { type Scope, scopes, toScopes } from './scopes.ts';
import { createSecret } from './secret.ts';

export const maxTokenDays = 90;
/** The maximum number of tokens per person, not counting expired and revoked ones. */
const maxTokens = 50;
const lastUsedIntervalMs = 60_000;
const tokenPattern = /^gwp_([0-9a-f]{12})_[\w-]{43}$/;

const inputSchema = z.strictObject({
  name: z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(100)
    .refine((name) => !/[\p{Cc}\p{Cs}]/u.test(name), 'must not contain control characters'),
  scopes: z.array(z.enum(scopes)).min(1, 'choose at least one scope'),
  days: z.int().min(1).max(maxTokenDays),
});

export const personalTokenInput = z.strictObject({
  name: inputSchema.shape.name,
  scopes: inputSchema.shape.scopes,
  expires_in_days: inputSchema.shape.days,
});

export interface PersonalToken {
  readonly id: string;
  readonly prefix: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: number;
  readonly expiresAt: number;
  /** When the token was last used, to within a minute. Null if it hasn't been used yet. */
  readonly lastUsedAt: number | null;
}

export type PersonalTokens = ReturnType<typeof createPersonalTokens>;

export function createPersonalTokens({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
  return {
    /**
     * Creates a token from `name`, `scopes` and `days`. Only the result of this call contains the token itself. Throws
     * `bad_request`, or `conflict` if the person is disabled or has too many tokens.
     */
    async create(personId: string, input: unknown): Promise<{ token: string; record: PersonalToken }> {
      const { name, scopes: granted, days } = parseOrBadRequest(inputSchema, input);
      const now = clock.now();
      const prefix = randomBytes(6).toString('hex');
      const token = `gwp_${prefix}_${createSecret().secret}`;
      const [row] = await database.query<TokenRow>(
        `insert into personal_tokens (id, person_id, prefix, token_sha256, name, scopes, created_at, expires_at)
         select $1::uuid, id, $3::text, $4::bytea, $5::text, $6::text[], $7::timestamptz, $8::timestamptz
           from people
          where id = $2::uuid and disabled_at is null
            and (select count(*) from personal_tokens where person_id = $2::uuid and ${isUsable('$7')}) < $9::integer
            for share
         returning ${columns}`,
        [newId(now), personId, prefix, sha256(token), name, toScopes(granted), new Date(now), new Date(now + days * dayMs), maxTokens],
      );
      if (!row) throw gatewayError('conflict', { message: `the account is disabled or already has ${maxTokens} tokens; revoke one first` });
      return { token, record: toRecord(row) };
    },
    /** Returns the person's usable tokens, newest first. */
    async list(personId: string): Promise<PersonalToken[]> {
      const rows = await database.query<TokenRow>(
        `select ${columns} from personal_tokens where person_id = $1::uuid and ${isUsable('$2')} order by id desc`,
        [personId, new Date(clock.now())],
      );
      return rows.map(toRecord);
    },
    /** Revokes and returns a token. Throws `not_found`. */
    async revoke(personId: string, tokenId: string): Promise<PersonalToken> {
      const [row] = await database.query<TokenRow>(
        `update personal_tokens set revoked_at = $3::timestamptz
          where person_id = $1::uuid and id::text = $2::text and revoked_at is null returning ${columns}`,
        [personId, tokenId, new Date(clock.now())],
      );
      if (!row) throw gatewayError('not_found', { message: 'no such token' });
      return toRecord(row);
    },
    /** Returns null if we don't know the token, if it's expired or revoked, or if the person is disabled. */
    async find(token: string): Promise<{ person: Person; record: PersonalToken } | null> {
      const prefix = tokenPattern.exec(token)?.[1];
      if (prefix === undefined) return null;
      const now = clock.now();
      const [row] = await database.query<
        TokenRow & { personId: string; email: string; personName: string; isAdmin: boolean; hash: Buffer }
      >(
        `select ${columns}, token_sha256 as hash, people.id as "personId", ${shownEmailSql} as email, people.name as "personName", is_admin as "isAdmin"
           from personal_tokens join people on people.id = person_id
          where prefix = $1::text and disabled_at is null and ${isUsable('$2')}`,
        [prefix, new Date(now)],
      );
      if (!row || !timingSafeEqual(row.hash, sha256(token))) return null;
      const { personId, email, personName, isAdmin, hash: _, ...record } = row;
      // Don't update the time before the secret is checked, because an attempt with a wrong secret doesn't count as a
      // use.
      if (row.lastUsedAt === null || row.lastUsedAt.getTime() <= now - lastUsedIntervalMs)
        await database.query('update personal_tokens set last_used_at = $2::timestamptz where id = $1::uuid', [row.id, new Date(now)]);
      return { person: { id: personId, email, name: personName, isAdmin }, record: toRecord(record) };
    },
  };
}

const columns = `personal_tokens.id, prefix, personal_tokens.name, scopes, personal_tokens.created_at as "createdAt",
  expires_at as "expiresAt", last_used_at as "lastUsedAt"`;

/**
 * SQL condition for tokens that haven't been revoked and haven't expired. `now` is the placeholder for the current
 * time.
 */
function isUsable(now: string): string {
  return `revoked_at is null and expires_at > ${now}::timestamptz`;
}

interface TokenRow extends Pick<PersonalToken, 'id' | 'prefix' | 'name'> {
  readonly scopes: readonly string[];
  readonly createdAt: Date;
  readonly expiresAt: Date;
  readonly lastUsedAt: Date | null;
}

function toRecord({ createdAt, expiresAt, lastUsedAt, scopes: granted, ...row }: TokenRow): PersonalToken {
  return {
    ...row,
    scopes: toScopes(granted),
    createdAt: createdAt.getTime(),
    expiresAt: expiresAt.getTime(),
    lastUsedAt: lastUsedAt?.getTime() ?? null,
  };
}
