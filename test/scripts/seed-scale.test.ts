/** `npm run seed-scale` on the PostgreSQL of the run, with few rows. */
import { spawnSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import { root } from '../../scripts/launch.js';
import { describePostgres, withPostgres } from '../support/postgres.ts';

describePostgres('seed-scale', () => {
  test('fills an empty database with all its indexes, and refuses one that has a project', () =>
    withPostgres(async (url) => {
      const seed = () =>
        spawnSync(process.execPath, ['scripts/seed-scale.js', '--calls', '5000', '--memories', '2000'], {
          cwd: root,
          env: { ...process.env, DATABASE_URL: url },
          encoding: 'utf8',
        });
      const first = seed();
      expect([first.status, first.stderr]).toEqual([0, '']);
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        const { rows } = await client.query(
          `select (select count(*)::integer from calls) as calls, (select count(*)::integer from calls_default) as unfiled,
                  (select count(*)::integer from memory_items) as memories,
                  (select round(avg((project.slug = 'scale-1')::integer), 1)::text from calls join projects project on project.id = project_id) as share,
                  (select count(*)::integer from memory_passages where project_id = (select id from projects where slug = 'scale-12')) as small,
                  (select count(*)::integer from call_texts text join calls call on call.id = text.call_id and call.project_id = text.project_id
                     join parts part on part.project_id = text.project_id and part.hash = text.last_hash) as texts,
                  (select count(*)::integer from pg_index where indrelid = 'memory_items'::regclass) > 5 as "hasIndexes",
                  (select count(*)::integer from pg_constraint where conrelid = 'memory_passages'::regclass and contype = 'f') as "references"`,
        );
        expect(rows).toEqual([
          { calls: 5_000, unfiled: 0, memories: 2_000, share: '0.8', small: 500, texts: 48, hasIndexes: true, references: 3 },
        ]);
      } finally {
        await client.end();
      }
      const second = seed();
      expect([second.status, second.stderr]).toEqual([
        1,
        'the database has the project "scale-1"; seed-scale fills only a database without projects\n',
      ]);
    }));
});
