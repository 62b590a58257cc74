/**
 * Tests a journal whose disk is full or stalls. If the disk is full, we reject calls that can't be recorded, settle
 * open calls, and recover when there's space again. If the disk stalls, only calls wait for it.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { type JournalFileSystem, nodeFileSystem } from '../../src/journal/file-system.ts';
import { createBrokenDisk } from '../journal/broken-disk.ts';
import { callsOf, eventually, jsonOf, type TestGateway, withGateway } from '../support/gateway.ts';
import { metricsOf, sumOf } from '../support/metrics.ts';
import { describePostgres } from '../support/postgres.ts';

interface Disk {
  readonly dataDir?: string;
  readonly journalFiles?: JournalFileSystem;
  /** Fills the disk. */
  fill(): void;
  free(): void;
}

/** Larger than the journal's ballast file and a segment together. */
const diskSize = '48m';

/** Mounts a separate file system, or returns null if this user is not allowed to. */
async function mountDisk(): Promise<(Disk & { unmount(): Promise<void> }) | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskSize}`, 'tmpfs', dataDir], { stdio: 'ignore' });
  } catch {
    await rm(dataDir, { recursive: true });
    return null;
  }
  const ballast = join(dataDir, 'ballast');
  return {
    dataDir,
    fill() {
      const file = openSync(ballast, 'a');
      for (const size of [1_048_576, 4_096, 1]) {
        try {
          for (;;) writeSync(file, Buffer.alloc(size));
        } catch {
          // Too large, so we try a smaller write.
        }
      }
      closeSync(file);
    },
    free: () => rmSync(ballast),
    async unmount() {
      execFileSync('umount', [dataDir]);
      await rm(dataDir, { recursive: true });
    },
  };
}

function standIn(): Disk {
  const disk = createBrokenDisk();
  return { journalFiles: disk.files, fill: () => disk.leave(0), free: () => disk.leave(null) };
}

const ask = (gateway: TestGateway, path: string, model: string, stream = false): Promise<Response> =>
  gateway.call(path, { model, stream, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] });

const asked = ({ vendor }: TestGateway, model: string): number => vendor.requests().filter(({ body }) => body.includes(model)).length;

async function expectHonest(disk: Disk): Promise<void> {
  const { dataDir, journalFiles } = disk;
  await withGateway({ database: 'server', ...(dataDir && { dataDir }), ...(journalFiles && { journalFiles }) }, async (gateway) => {
    const open = await ask(gateway, '/v1/chat/completions', 'one/echo+pace-40+long-50', true);
    expect(open.status).toBe(200);
    disk.fill();
    // The last page of the segment still has free bytes.
    await eventually(async () => expect((await ask(gateway, '/v1/chat/completions', 'one/echo+squeezed')).status).toBe(503));
    for (const path of ['/v1/chat/completions', '/v1/messages']) {
      const refused = await ask(gateway, path, 'one/echo+unseen');
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
      expect(await refused.text()).toContain('calls cannot be recorded at the moment: the disk is full');
    }
    expect(asked(gateway, 'echo+unseen')).toBe(0);
    const ready = await gateway.call('/readyz');
    const reason = expect.stringMatching(/^the journal cannot be written: the disk is full \(/);
    expect([ready.status, await jsonOf(ready)]).toEqual([503, { status: 'not_ready', reasons: [reason], degraded: [] }]);
    expect((await gateway.call('/healthz')).status).toBe(200);
    expect(sumOf(await metricsOf(gateway), 'gateway_journal_accepting')).toBe(0);
    const failures = gateway.logs.filter((line) => line.includes('journal write failed'));
    expect(failures).toEqual([expect.stringContaining('"reason":"the disk is full"')]);
    // This also fills the space of the released ballast file.
    disk.fill();
    expect(await open.text()).toContain('data: [DONE]');

    disk.free();
    await eventually(async () => expect((await ask(gateway, '/v1/chat/completions', 'one/echo+again')).status).toBe(200));
    expect((await gateway.call('/readyz')).status).toBe(200);
    expect(sumOf(await metricsOf(gateway), 'gateway_journal_accepting')).toBe(1);
    await eventually(async () => {
      const calls = await callsOf(gateway);
      expect(calls.map(({ outcome }) => outcome)).toEqual(calls.map(() => 'ok'));
      // We only record requests that reached a vendor as calls.
      expect(calls).toHaveLength(['echo+pace-40', 'echo+squeezed', 'echo+again'].reduce((sum, model) => sum + asked(gateway, model), 0));
    });
  });
}

const mounted = await mountDisk();
const disks: readonly (readonly [string, Disk & { unmount?(): Promise<void> }])[] = [
  // If we are not allowed to mount, we only test the simulated disk.
  ...(mounted ? [['a real file system', mounted] as const] : []),
  ['a simulated disk', standIn()],
];

describePostgres('a full disk for the journal', () => {
  it.each(disks)('returns 503 without calling a vendor while %s is full', async (_name, disk) => {
    try {
      await expectHonest(disk);
    } finally {
      await disk.unmount?.();
    }
  });
});

describePostgres('a disk for the journal whose writes hang', () => {
  it("continues open streams while writes to the journal's disk hang", async () => {
    let resume = (): void => undefined;
    let stalled: Promise<void> | null = null;
    const journalFiles: JournalFileSystem = {
      ...nodeFileSystem,
      async create(file) {
        const real = await nodeFileSystem.create(file);
        return {
          ...real,
          async writeAll(buffers, position) {
            await stalled;
            await real.writeAll(buffers, position);
          },
          writeAllSync(buffers, position) {
            if (stalled) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
            real.writeAllSync(buffers, position);
          },
        };
      },
    };
    await withGateway({ database: 'server', journalFiles }, async (gateway) => {
      const open = await ask(gateway, '/v1/chat/completions', 'one/echo+pace-40+long-50', true);
      const chunks = open.body?.getReader();
      await chunks?.read();
      ({ promise: stalled, resolve: resume } = Promise.withResolvers<void>());
      // The first record blocks the process for 60 ms. After that, the disk only gets asynchronous writes.
      const first = ask(gateway, '/v1/chat/completions', 'one/echo+first');
      await eventually(async () => expect(asked(gateway, 'echo+first')).toBe(1));
      const waiting = ask(gateway, '/v1/chat/completions', 'one/echo+waiting');
      for (let request = 0; request < 5; request += 1) {
        expect((await gateway.call('/readyz')).status).toBe(200);
        expect((await chunks?.read())?.done).toBe(false);
      }
      expect(asked(gateway, 'echo+waiting')).toBe(0);
      resume();
      stalled = null;
      expect([(await first).status, (await waiting).status]).toEqual([200, 200]);
      await chunks?.cancel();
    });
  });
});
