import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { newId } from '../../src/core/ids.ts';
import { dayMs, hourMs } from '../../src/core/time.ts';
import type { Database } from '../../src/db/database.ts';
import { type ContentRule, ruleIdOf } from '../../src/guardrails/content-rule.ts';
import { createRuleHits, deleteExpiredRuleHits, maxCallsPerHour } from '../../src/projects/rule-hits.ts';
import { describeDatabases } from '../db/databases.ts';

const email: ContentRule = { class: 'email', place: 'input', action: 'observe' };
const iban: ContentRule = { class: 'iban', place: 'input', action: 'block' };
const start = Date.parse('2026-11-20T10:30:00Z');

async function createProject(database: Database): Promise<string> {
  const id = randomUUID();
  await database.query(
    `insert into projects (id, slug, name, settings, created_at, updated_at) values ($1::uuid, $2::text, $2::text, '{}', now(), now())`,
    [id, `p${id.slice(0, 8)}`],
  );
  return id;
}

describeDatabases('matches of content rules', (database) => {
  const setUp = async () => {
    const clock = { at: start, now: () => clock.at };
    const hits = createRuleHits({ database: database(), clock });
    const projectId = await createProject(database());
    /** Records a hit in a call that starts now. */
    const hit = (...rules: ContentRule[]): string => {
      const callId = newId(clock.at);
      hits.record({ projectId, callId, rules });
      return callId;
    };
    return { clock, hits, projectId, hit };
  };

  test("counts each call once per matching rule, regardless of the rule's action", async () => {
    const { clock, hits, projectId, hit } = await setUp();
    const first = hit(email, iban);
    hits.record({ projectId, callId: first, rules: [email] });
    clock.at += hourMs;
    const second = hit({ ...email, action: 'block' });
    expect([...(await hits.count(projectId))].toSorted()).toEqual(
      [
        [ruleIdOf(email), 2],
        [ruleIdOf(iban), 1],
      ].toSorted(),
    );
    const page = { before: null, limit: 10 };
    expect(await hits.listCalls(projectId, ruleIdOf(email), page)).toEqual([second, first]);
    expect(await hits.listCalls(projectId, ruleIdOf(email), { before: second, limit: 10 })).toEqual([first]);
    expect(await hits.listCalls(await createProject(database()), ruleIdOf(email), page)).toEqual([]);
    expect(await hits.list(projectId, [iban, email], 1)).toEqual([
      { rule: iban, hits: 1, calls: [first] },
      { rule: email, hits: 2, calls: [second] },
    ]);
  });

  test('adds up content rule matches from several processes', async () => {
    const { clock, hits, projectId } = await setUp();
    const other = createRuleHits({ database: database(), clock });
    const record = (target: typeof hits): string[] =>
      Array.from({ length: 1_000 }, () => {
        const callId = newId(clock.at++);
        target.record({ projectId, callId, rules: [email] });
        return callId;
      });
    record(hits);
    await hits.stop();
    const latest = record(other);
    await Promise.all([other.stop(), hits.stop()]);
    expect((await hits.count(projectId)).get(ruleIdOf(email))).toBe(2_000);
    const listed = await hits.listCalls(projectId, ruleIdOf(email), { before: null, limit: 5_000 });
    expect(listed).toEqual(latest.toReversed().slice(0, maxCallsPerHour));
    const rows = await database().query('select 1 from content_rule_hits where project_id = $1::uuid', [projectId]);
    expect(rows).toHaveLength(1);
  });

  test('keeps content rule matches in memory while the database is unavailable', async () => {
    const { clock, projectId } = await setUp();
    let isDown = true;
    const flaky: Database = {
      ...database(),
      query: (text, values) => (isDown ? Promise.reject(new Error('down')) : database().query(text, values)),
    };
    const warnings: string[] = [];
    const hits = createRuleHits({
      database: flaky,
      clock,
      logger: { warn: (_fields: object, text: string) => warnings.push(text) } as never,
    });
    hits.record({ projectId, callId: newId(clock.at), rules: [email] });
    await hits.stop();
    hits.record({ projectId, callId: newId(clock.at + 1), rules: [email] });
    await hits.stop();
    expect(warnings).toEqual(['failed to write content rule hits; retrying']);
    isDown = false;
    expect((await hits.count(projectId)).get(ruleIdOf(email))).toBe(2);
  });

  test('deletes content rule matches after seven days', async () => {
    const { clock, hits, projectId, hit } = await setUp();
    hit(email);
    await hits.count(projectId);
    clock.at += 7 * dayMs;
    expect((await hits.count(projectId)).size).toBe(0);
    expect(await hits.listCalls(projectId, ruleIdOf(email), { before: null, limit: 10 })).toEqual([]);
    clock.at += dayMs;
    expect(await deleteExpiredRuleHits(database(), clock)).toBeGreaterThan(0);
    expect(await database().query('select 1 from content_rule_hits where project_id = $1::uuid', [projectId])).toEqual([]);
  });
});
