/**
 * The content rules of projects as they are set and shown (shapes 19): one validator and one way to change them, whoever does. They travel
 * with the project: a change drops the project in every process.
 */
import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import { type ContentRule, parseRulesInput, parseStoredRules } from '../guardrails/content-rule.ts';

export interface ContentRules {
  /** Those in force. */
  find(projectId: string): Promise<readonly ContentRule[]>;
  /** Puts the rules of `input` in the place of all others. Throws `bad_request`, naming all that is wrong. */
  put(projectId: string, input: unknown): Promise<readonly ContentRule[]>;
}

export interface ContentRulesOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Sent with NOTIFY; its payload is the project's id. */
  readonly channel: string;
  readonly onChange: (projectId: string) => void;
}

export function createContentRules({ database, clock, channel, onChange }: ContentRulesOptions): ContentRules {
  return {
    async find(projectId) {
      const [row] = await database.query<{ rules: unknown }>('select rules from projects where id = $1::uuid', [projectId]);
      return parseStoredRules(row?.rules ?? []);
    },
    async put(projectId, input) {
      const rules = parseRulesInput(input);
      await database.transaction(async (tx) => {
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
