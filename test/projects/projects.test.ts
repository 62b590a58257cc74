import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { generateSecret } from '../../src/keys/secret.ts';
import { createProjects, type Projects, toProjectJson } from '../../src/projects/projects.ts';
import { describeAnyDatabase } from '../db/databases.ts';

describeAnyDatabase('projects', (database) => {
  let now = 0;
  let slug = '';
  let projects: Projects;
  let otherProcess: Projects;
  const clock = { now: () => now };

  beforeEach(async () => {
    now = Date.parse('2026-11-20T10:00:00Z');
    slug = `acme-${generateSecret().prefix}`;
    projects = createProjects({ database: database(), clock });
    otherProcess = createProjects({ database: database(), clock });
    await Promise.all([projects.start(), otherProcess.start()]);
  });
  afterEach(() => Promise.all([projects.stop(), otherProcess.stop()]));

  test('creates a project with default settings', async () => {
    const { project, created } = await projects.put(slug, undefined);
    expect(created).toBe(true);
    expect(toProjectJson(project)).toEqual({
      id: project.id,
      project: slug,
      name: slug,
      providers: null,
      tiers: {},
      image_tiers: {},
      speech_tiers: {},
      transcription_tiers: {},
      retired: [],
      required_tags: [],
      catalog_fill: null,
      may_call: true,
      monthly_cap: null,
      cache: { enabled: true, ttl_seconds: 600 },
      cache_sampled: false,
      error_codes: 'gateway',
      time_zone: 'UTC',
      on_budget_store_down: null,
      created_at: '2026-11-20T10:00:00Z',
      updated_at: '2026-11-20T10:00:00Z',
    });
  });

  test('keeps project settings that are undefined in the input', async () => {
    await projects.put(slug, { may_call: false, cache: { ttl_seconds: 5 } });
    const { project } = await projects.put(slug, { may_call: undefined, cache: { ttl_seconds: undefined } });
    expect(project.settings).toMatchObject({ mayCall: false, cache: { ttlMs: 5_000 } });
  });

  test('keeps omitted project settings and removes those that are set to null', async () => {
    await projects.put(slug, {
      name: 'Acme',
      providers: ['openai'],
      tiers: { standard: ['openai/a'] },
      monthly_cap: 12.5,
      cache: { ttl_seconds: 5 },
      cache_sampled: true,
      error_codes: 'vendor',
    });
    now += 1_000;
    const { project, created } = await projects.put(slug, { retired: ['openai/b'], providers: null, cache: { enabled: false } });
    expect(created).toBe(false);
    expect(project).toMatchObject({
      name: 'Acme',
      settings: {
        providers: null,
        tiers: { standard: ['openai/a'] },
        retired: ['openai/b'],
        monthlyCapNanos: 12_500_000_000,
        cache: { enabled: false, ttlMs: 5_000, sampled: true },
        errorCodes: 'vendor',
      },
      updatedAt: now,
      createdAt: now - 1_000,
    });
    expect((await projects.put(slug, { monthly_cap: null, tiers: {}, providers: [] })).project.settings).toMatchObject({
      monthlyCapNanos: null,
      tiers: {},
      providers: [],
    });
  });

  test('stores the models and providers that a project has retired', async () => {
    const retired = ['openai', 'openai/b', 'router/meta/llama'];
    expect((await projects.put(slug, { retired })).project.settings.retired).toEqual(retired);
    for (const wrong of ['', 'a b', '/b', 'a/', '-a']) {
      await expect(projects.put(slug, { retired: [wrong] })).rejects.toMatchObject({ code: 'bad_request' });
    }
  });

  test('rejects project names with control characters but still loads a project that has one', async () => {
    await projects.put(slug, {});
    for (const name of ['a\nb', 'a\u0007', '\u009fb'])
      await expect(projects.put(slug, { name })).rejects.toMatchObject({
        issues: [{ path: 'name', message: 'must not contain control characters' }],
      });
    await database().query('update projects set name = $2::text where slug = $1::text', [slug, 'a\nb']);
    expect(await projects.findBySlug(slug)).toMatchObject({ name: 'a\nb' });
    expect((await projects.put(slug, { monthly_cap: 5 })).project.name).toBe('a\nb');
  });

  test('rejects control characters in model names but keeps names that an older version has stored', async () => {
    await projects.put(slug, {});
    for (const model of ['one/a\u0001', 'one\u0000/a', 'one/\ud800'])
      await expect(projects.put(slug, { tiers: { own: [model] }, retired: [model] })).rejects.toMatchObject({
        code: 'bad_request',
        issues: [
          { path: 'tiers.own.0', message: 'must not contain control characters' },
          { path: 'retired.0', message: 'must not contain control characters' },
        ],
      });
    await expect(projects.put(slug, { tiers: { own: ['one'] }, retired: ['a b'] })).rejects.toMatchObject({
      issues: [
        { path: 'tiers.own.0', message: 'must be a model as <provider>/<model>' },
        { path: 'retired.0', message: 'must be a model as <provider>/<model>, or the name of a provider' },
      ],
    });
    await database().query(
      `update projects set settings = settings || '{"tiers": {"own": ["one/a\\u0001"]}, "retired": ["one/a\\u0001"]}' where slug = $1::text`,
      [slug],
    );
    expect((await projects.put(slug, { monthly_cap: 5 })).project.settings).toMatchObject({
      tiers: { own: ['one/a\u0001'] },
      retired: ['one/a\u0001'],
    });
  });

  test("rejects a time zone that isn't an IANA name", async () => {
    expect((await projects.put(slug, {})).project.settings.timeZone).toBe('UTC');
    for (const name of ['Europe/Berlin', 'Asia/Kolkata', 'America/Argentina/Buenos_Aires', 'UTC'])
      expect((await projects.put(slug, { time_zone: name })).project.settings.timeZone).toBe(name);
    for (const wrong of ['', '+05:30', 'Mars/Base', 'CET+1', null, 2])
      await expect(projects.put(slug, { time_zone: wrong })).rejects.toMatchObject({ code: 'bad_request' });
  });

  test('reports every mistake in a change and stores nothing', async () => {
    await projects.put(slug, {});
    const change = projects.put(slug, {
      name: '',
      tiers: { auto: ['no-slash'] },
      monthly_cap: -1,
      may_call: 'yes',
      colour: 'red',
      cache: { ttl_seconds: 0 },
    });
    await expect(change).rejects.toMatchObject({ code: 'bad_request' });
    for (const place of ['name:', 'tiers.auto', 'monthly_cap:', 'may_call:', 'colour', 'cache.ttl_seconds:'])
      await expect(change).rejects.toThrow(place);
    expect((await projects.findBySlug(slug))?.settings.monthlyCapNanos).toBeNull();
  });

  test.each(['', '-a', 'A', 'a_b', 'a.b', 'ä', 'a'.repeat(64)])('rejects %j as a project slug', async (wrong) => {
    await expect(projects.put(wrong, {})).rejects.toMatchObject({ code: 'bad_request' });
    await expect(projects.put(wrong, { may_call: 7 })).rejects.toThrow(/^project: .+; may_call: /);
  });

  test('applies a change to a project in every process', async () => {
    const { project } = await projects.put(slug, {});
    await Promise.all([projects.get(project.id), otherProcess.get(project.id)]);
    expect(await otherProcess.get(project.id)).toMatchObject({ slug, settings: { mayCall: true } });
    await projects.put(slug, { may_call: false });
    expect(await projects.get(project.id)).toMatchObject({ settings: { mayCall: false } });
    const deadline = performance.now() + 60_000;
    while ((await otherProcess.get(project.id)).settings.mayCall) {
      if (performance.now() > deadline) throw new Error('the change did not arrive');
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  test('creates only one project if two requests create it at the same time', async () => {
    const results = await Promise.all([projects.put(slug, { name: 'one' }), otherProcess.put(slug, { retired: ['a/b'] })]);
    expect(results.filter(({ created }) => created).length).toBe(1);
    expect(await projects.findBySlug(slug)).toMatchObject({ name: 'one', settings: { retired: ['a/b'] } });
  });

  test('keeps project settings that a later PUT omits', async () => {
    expect((await projects.put(slug, {})).created).toBe(true);
    await projects.put(slug, { name: 'Renamed' });
    expect(await projects.put(slug, {})).toMatchObject({ created: false, project: { name: 'Renamed' } });
  });

  test('lists projects by slug', async () => {
    await projects.put(`b-${slug}`, {});
    await projects.put(`a-${slug}`, {});
    const slugs = (await projects.list()).map((project) => project.slug).filter((name) => name.endsWith(`-${slug}`));
    expect(slugs).toEqual([`a-${slug}`, `b-${slug}`]);
    expect(await projects.findBySlug('unknown')).toBeNull();
    await expect(projects.get('0193a8f0-0000-7000-8000-000000000000')).rejects.toMatchObject({ code: 'not_found' });
  });
});

test("fails with keystore_unavailable if a project isn't cached and can't be read", async () => {
  const projects = createProjects({
    clock: { now: () => 0 },
    database: {
      kind: 'server',
      query: () => Promise.reject(new Error('unavailable')),
      transaction: () => Promise.reject(new Error('unavailable')),
      runWithoutTimeout: () => Promise.reject(new Error('unavailable')),
      listen: () => Promise.reject(new Error('unavailable')),
      close: () => Promise.resolve(),
    },
  });
  await expect(projects.get('any')).rejects.toMatchObject({ code: 'keystore_unavailable' });
});
