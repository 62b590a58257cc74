/**
 * `/provision/quarantine` lists the records that the database rejected, without their text. It only sees those on the
 * host of the process that responds.
 */
import type { Router } from 'express';
import { formatTime } from '../../../core/time.ts';
import type { Projects } from '../../../projects/projects.ts';
import type { Responders } from './responders.ts';

export interface QuarantineRouteDeps {
  /** Returns the oldest file first. */
  readonly listQuarantined: () => Promise<readonly QuarantinedFile[]>;
  readonly projects: Pick<Projects, 'list'>;
}

interface QuarantinedFile {
  readonly name: string;
  readonly bytes: number;
  readonly quarantinedAt: Date;
  readonly calls: readonly { readonly projectId: string; readonly startedAt: number | null }[];
}

export function addQuarantineRoutes(router: Router, { read }: Responders, { listQuarantined, projects }: QuarantineRouteDeps): void {
  router.get(
    '/quarantine',
    read(async () => {
      const [files, known] = await Promise.all([listQuarantined(), projects.list()]);
      const slugs = new Map(known.map(({ id, slug }) => [id, slug]));
      const data = files.map(({ name, bytes, quarantinedAt, calls }) => {
        // We don't pass all start times to `Math.min`, because a file may have more calls than the stack can hold.
        const oldest = calls.reduce((start, { startedAt }) => Math.min(start, startedAt ?? start), Number.POSITIVE_INFINITY);
        return {
          file: name,
          bytes,
          quarantined_at: formatTime(quarantinedAt),
          projects: [...new Set(calls.map(({ projectId }) => slugs.get(projectId) ?? projectId))],
          oldest_call: oldest === Number.POSITIVE_INFINITY ? null : formatTime(new Date(oldest)),
        };
      });
      return { object: 'list', data };
    }),
  );
}
