/** Runs `npm run seed-scale` and `npm run benchmark-scale` with few rows, on the test run's PostgreSQL server. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import { root } from '../../scripts/launch.js';
import { describePostgres, withPostgres } from '../support/postgres.ts';

describePostgres('seed-scale', () => {
  test('fills an empty database with enough data to run the scale benchmark', () =>
    withPostgres(async (url) => {
      const seed = () =>
        spawnSync(process.execPath, ['scripts/seed-scale.js', '--calls', '2000', '--memories', '1000'], {
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
          { calls: 2_000, unfiled: 0, memories: 1_000, share: '0.8', small: 500, texts: 20, hasIndexes: true, references: 2 },
        ]);
        const { rows: cells } = await client.query(
          `select distinct sum(calls)::integer as calls from usage_cells where scope <> 'provider' group by scope, span`,
        );
        expect(cells).toEqual([{ calls: 2_000 }]);
        // Returns the rollups like the service fills them.
        const rollups = async () => (await client.query(selectRollups)).rows;
        const seeded = await rollups();
        await client.query('delete from usage_rollups');
        await client.query(`update usage_rollup_fill set filled_from = 'ffffffff-ffff-ffff-ffff-ffffffffffff'`);
        await client.query('select fill_usage_rollups(10000)');
        await client.query('select merge_usage_increments(array(select ctid from usage_increments))');
        expect(seeded.length).toBeGreaterThan(100);
        expect(seeded).toEqual(await rollups());
      } finally {
        await client.end();
      }
      const second = seed();
      expect([second.status, second.stderr]).toEqual([
        1,
        'the database has the project "scale-1"; seed-scale fills only a database without projects\n',
      ]);
      // One page of the console is enough, because the benchmark requests all of them in the same way.
      const { status, stdout, stderr, titles, problems } = await benchmark(url, '^(?!console )|console /overview$');
      expect({ status, stderr, problems }).toEqual({ status: 0, stderr: '', problems: [] });
      expect(stdout).toContain('| search with vectors, large project | 200 |');
      expect(titles).toEqual(
        expect.arrayContaining(['GET /usage/me', 'search, large project', 'console /overview', 'erasure of a subject']),
      );
      // This is the last operation.
      expect(titles.at(-1)).toBe('nearest 10 of the small project: 500 passages; 100.0 % of the exact scan');
    }));
});

async function benchmark(url: string, only: string) {
  const folder = await mkdtemp(join(tmpdir(), 'benchmark-scale-'));
  try {
    const json = join(folder, 'result.json');
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['scripts/benchmark-scale.js', '--rounds', '1', '--only', only, '--json', json],
      { cwd: root, env: { ...process.env, DATABASE_URL: url }, encoding: 'utf8' },
    );
    const { rows, problems } = JSON.parse(await readFile(json, 'utf8').catch(() => '{"rows":[]}'));
    return { status, stdout, stderr, titles: rows.map(({ title }: { title: string }) => title), problems };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Ignores the order of histogram elements. */
const selectRollups = `
  select md5(string_agg(row::text, ' ' order by row::text)) as rows, project_id, scope, span, count(*)::integer as count
    from (
      select project_id, scope, span, start, name, key_prefix, calls, vendor_calls, vendor_tokens::bigint, slots, errors, unpriced, cost_nanos::bigint,
             tokens_input::bigint, tokens_cached_input::bigint, tokens_cache_write::bigint, tokens_output::bigint, cache_hits, cache_lookups, failovers,
             array(select element & 1023 from unnest(durations) as element group by 1 order by 1) as slots_of_durations,
             (select sum(element >> 10) from unnest(durations) as element) as durations,
             (select sum((element & 1023) * (element >> 10)) from unnest(first_chunks) as element) as first_chunks
        from usage_rollups
    ) as row
   group by project_id, scope, span order by project_id, scope, span`;
