/** Projects whose locks are sometimes held for seconds, as they are by an erasure. */
import type { Random } from '../support/random.ts';
import type { World } from './world.ts';

const projectIds = [1, 2, 3].map((number) => `01900000-0000-7000-8001-00000000000${number}`) as [string, ...string[]];

/** If `random` is null, no project is ever locked. */
export function createProjectLocks(world: World, random: Random | null) {
  const lockedUntil = new Map<string, number>();
  let timeouts = 0;

  return {
    projectIds,
    projectOf: (call: number): string => projectIds[call % projectIds.length] ?? '',
    get timeouts(): number {
      return timeouts;
    },
    /** Locks some projects before `untilMs`. */
    schedule(untilMs: number): void {
      if (!random) return;
      for (let n = random.between(1, 4); n > 0; n -= 1) {
        const [projectId, durationMs] = [random.pick(projectIds), random.between(0, 8_000)];
        world.after(random.between(0, untilMs), null, () => lockedUntil.set(projectId, world.now() + durationMs));
      }
    },
    /** Waits for the locks. Throws like PostgreSQL if that takes longer than the `lock_timeout` in `settings`. */
    async wait(locked: readonly string[], settings = ''): Promise<void> {
      const waitMs = Math.max(...locked.map((projectId) => lockedUntil.get(projectId) ?? 0)) - world.now();
      const timeoutMs = Number(/lock_timeout = (\d+)/.exec(settings)?.[1] ?? Number.POSITIVE_INFINITY);
      if (waitMs <= 0) return;
      await new Promise((resolve) => setTimeout(resolve, Math.min(waitMs, timeoutMs)));
      if (waitMs <= timeoutMs) return;
      timeouts += 1;
      throw Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' });
    },
  };
}
