import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { generateSecret } from '../../src/keys/secret.ts';
import { toApplicationJson } from '../../src/projects/applications.ts';
import { createProjects, type Project, type Projects } from '../../src/projects/projects.ts';
import { describeAnyDatabase } from '../db/databases.ts';

describeAnyDatabase('applications of a project', (database) => {
  let now = 0;
  let project: Project;
  let projects: Projects;
  let otherProcess: Projects;
  const clock = { now: () => now };

  beforeEach(async () => {
    now = Date.parse('2026-11-20T10:00:00Z');
    projects = createProjects({ database: database(), clock });
    otherProcess = createProjects({ database: database(), clock });
    await Promise.all([projects.start(), otherProcess.start()]);
    project = (await projects.put(`acme-${generateSecret().prefix}`, {})).project;
  });
  afterEach(() => Promise.all([projects.stop(), otherProcess.stop()]));

  const put = (source: string, input: unknown, id = project.id) => projects.applications.put(id, source, input);

  test('returns default settings for an unknown application', async () => {
    expect(toApplicationJson(await projects.applications.find(project.id, 'bot'))).toEqual({
      source: 'bot',
      ceilings: { calls: null, cost: null },
      windows: { calls: 'month', cost: 'month' },
      tiers: {},
      image_tiers: {},
      speech_tiers: {},
      transcription_tiers: {},
      created_at: null,
      updated_at: null,
    });
    expect(await projects.applications.list(project.id)).toEqual([]);
    expect((await projects.get(project.id)).settings.applications.size).toBe(0);
  });

  test('returns 409 for a change based on outdated settings', async () => {
    await put('bot', { tiers: { standard: ['openai/a'] } });
    const { applications } = projects;
    await expect(applications.put(project.id, 'bot', { tiers: {} }, { tiers: { standard: ['openai/b'] } })).rejects.toMatchObject({
      code: 'conflict',
      issues: [{ path: 'tiers', message: 'has changed since you read it' }],
    });
    await applications.put(project.id, 'bot', { tiers: {} }, { tiers: { standard: ['openai/a'] } });
    expect((await applications.find(project.id, 'bot')).settings.tiers).toEqual({});

    await expect(projects.put(project.slug, { retired: ['openai'] }, { retired: ['openai/x'] })).rejects.toMatchObject({
      code: 'conflict',
    });
    await projects.put(project.slug, { retired: ['openai'] }, { retired: [], tiers: {} });
    await expect(projects.put(project.slug, { name: 'Mine' }, { name: 'Theirs' })).rejects.toMatchObject({ code: 'conflict' });
    await projects.put(project.slug, { name: 'Mine' }, { name: project.name });
  });

  test('keeps application settings that are undefined in the input', async () => {
    await put('bot', { ceilings: { calls: 5 }, tiers: { standard: ['openai/a'] } });
    const { settings } = await put('bot', { ceilings: { calls: undefined }, windows: undefined, tiers: undefined });
    expect(settings).toMatchObject({ ceilings: { calls: { limit: 5, window: 'month' } }, tiers: { standard: ['openai/a'] } });
  });

  test('keeps omitted application settings and removes a ceiling that is set to null', async () => {
    await put('bot', {
      ceilings: { calls: 100, cost: 12.5 },
      windows: { cost: 'day' },
      tiers: { standard: ['openai/a'], own: ['openai/b'] },
    });
    now += 1_000;
    expect(toApplicationJson(await put('bot', { ceilings: { calls: null }, windows: { calls: 'total' } }))).toEqual({
      source: 'bot',
      ceilings: { calls: null, cost: 12.5 },
      windows: { calls: 'total', cost: 'day' },
      image_tiers: {},
      speech_tiers: {},
      transcription_tiers: {},
      tiers: { standard: ['openai/a'], own: ['openai/b'] },
      created_at: '2026-11-20T10:00:00Z',
      updated_at: '2026-11-20T10:00:01Z',
    });
    expect((await put('bot', { tiers: { own: [] } })).settings).toEqual({
      ceilings: { calls: { limit: null, window: 'total' }, cost: { limit: 12_500_000_000, window: 'day' } },
      tiers: { own: [] },
      imageTiers: {},
      speechTiers: {},
      transcriptionTiers: {},
    });
    expect(toApplicationJson(await put('bot', undefined))).toMatchObject({ ceilings: { cost: 12.5 }, tiers: { own: [] } });
  });

  test('keeps two concurrent changes to different settings of an application', async () => {
    await Promise.all([put('bot', { ceilings: { calls: 5 } }), otherProcess.applications.put(project.id, 'bot', { tiers: { own: [] } })]);
    expect((await projects.applications.find(project.id, 'bot')).settings).toMatchObject({
      ceilings: { calls: { limit: 5 } },
      tiers: { own: [] },
      imageTiers: {},
      speechTiers: {},
      transcriptionTiers: {},
    });
  });

  test('applies a change immediately in the same process and after a notification in others', async () => {
    await Promise.all([projects.get(project.id), otherProcess.get(project.id)]);
    await put('bot', { tiers: { standard: ['openai/a'] } });
    expect((await projects.get(project.id)).settings.applications.get('bot')?.tiers).toEqual({ standard: ['openai/a'] });
    const deadline = performance.now() + 60_000;
    while (!(await otherProcess.get(project.id)).settings.applications.has('bot')) {
      if (performance.now() > deadline) throw new Error('the change did not arrive');
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  test('keeps application settings when the project changes', async () => {
    await put('bot', { tiers: { own: ['openai/a'] } });
    const changed = await projects.put(project.slug, { name: 'Acme' });
    expect(changed.project.settings.applications.get('bot')?.tiers).toEqual({ own: ['openai/a'] });
    expect((await projects.findBySlug(project.slug))?.settings.applications.size).toBe(1);
    expect((await projects.list()).find(({ id }) => id === project.id)?.settings.applications.size).toBe(1);
  });

  test("lists a project's applications by name", async () => {
    const { project: other } = await projects.put(`other-${generateSecret().prefix}`, {});
    for (const source of ['b', 'a', 'B']) await put(source, {});
    await put('a', { ceilings: { calls: 1 } }, other.id);
    expect((await projects.applications.list(project.id)).map(({ source }) => source)).toEqual(['B', 'a', 'b']);
    expect((await projects.applications.find(project.id, 'a')).settings.ceilings.calls.limit).toBeNull();
  });

  test.each(['a/b c', 'ä🙂', '__proto__', 'constructor', '10', '.', '%2F', "'; drop table", 'x'.repeat(256), '🙂'.repeat(256)])(
    'accepts %j as an application name',
    async (source) => {
      await put(source, { tiers: { own: ['openai/a'] } });
      const { applications } = (await projects.get(project.id)).settings;
      expect([...applications.keys()]).toEqual([source]);
      expect(await projects.applications.find(project.id, source)).toMatchObject({ source, createdAt: now });
    },
  );

  test.each(['', 'x'.repeat(257), '🙂'.repeat(257), 'a\0b', 'a\ud800'])('rejects %j as an application name', async (source) => {
    await expect(put(source, {})).rejects.toMatchObject({ code: 'bad_request' });
    await expect(projects.applications.find(project.id, source)).rejects.toMatchObject({ code: 'bad_request' });
  });

  describe('an invalid change', () => {
    test.each<[unknown, string]>([
      [[], 'must be an object'],
      [{ colour: 1 }, 'colour'],
      [{ ceilings: { rpm: 1 } }, 'rpm'],
      [{ ceilings: { calls: 1.5 } }, 'ceilings.calls:'],
      [{ ceilings: { calls: -1 } }, 'ceilings.calls:'],
      [{ ceilings: { cost: '1' } }, 'ceilings.cost:'],
      [{ ceilings: { cost: 9_000_001 } }, 'ceilings.cost:'],
      [{ ceilings: null }, 'ceilings:'],
      [{ windows: { calls: 'minute' } }, 'windows.calls:'],
      [{ tiers: { auto: ['a/b'] } }, 'tiers.auto'],
      [{ tiers: { own: ['no-slash'] } }, 'tiers.own.0:'],
    ])('returns 400 with the name of the invalid setting: %j', async (input, place) => {
      await expect(put('bot', input)).rejects.toMatchObject({ code: 'bad_request', message: expect.stringContaining(place) });
      expect(await projects.applications.list(project.id)).toEqual([]);
    });
  });

  test('returns 409 conflict for more than 1,000 applications', async () => {
    await database().query(`insert into applications (project_id, source) select $1::uuid, 'app-' || n from generate_series(1, 1000) n`, [
      project.id,
    ]);
    await expect(put('app-1001', {})).rejects.toMatchObject({ code: 'conflict' });
    expect(await put('app-7', { ceilings: { calls: 1 } })).toMatchObject({ source: 'app-7' });
  });
});
