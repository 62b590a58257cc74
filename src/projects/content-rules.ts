/**
 * Reads and replaces the content rules of a project. They are loaded together with the project, and a change
 * invalidates the cached project in every process.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type ContentRule, parseRulesInput, parseStoredRules } from '../guardrails/content-rule.ts';
import { assertNotModified } from './optimistic-lock.ts';

export interface ContentRules {
  find(projectId: string): Promise<readonly ContentRule[]>;
  /**
   * Replaces all rules. Throws `bad_request` with a list of every mistake, and `conflict` if the current rules differ
   * from `read`.
   */
  put(projectId: string, input: unknown, read?: { readonly rules: unknown }): Promise<readonly ContentRule[]>;
}

export interface ContentRulesOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** The NOTIFY channel. Its payload is the project's id. */
  readonly channel: string;
  readonly onChange: (projectId: string) => void;
}

export function createContentRules({ database, clock, channel, onChange }: ContentRulesOptions): ContentRules {
  return {
    async find(projectId) {
      const [row] = await database.query<{ rules: unknown }>('select rules from projects where id = $1::uuid', [projectId]);
      return parseStoredRules(row?.rules ?? []);
    },
    async put(projectId, input, read) {
      const rules = parseRulesInput(input);
      await database.transaction(async (tx) => {
        const [current] = await tx.query<{ rules: unknown }>('select rules from projects where id = $1::uuid for update', [projectId]);
        assertNotModified({ rules: parseStoredRules(current?.rules ?? []) }, read);
        await tx.query('update projects set rules = $2::jsonb, updated_at = $3::timestamptz where id = $1::uuid', [
          projectId,
          JSON.stringify(rules),
          new Date(clock.now()),
        ]);
        await tx.query('select pg_notify($1::text, $2::text)', [channel, projectId]);
      });
      onChange(projectId);
      return rules;
    },
  };
}
