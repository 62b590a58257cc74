/**
 * `/provision/quarantine` lists records that the database has rejected, without their text. The list only covers the
 * host of the process that responds.
 */
import { formatTime } from '../../../core/time.ts';
import type { Projects } from '../../../projects/projects.ts';
import type { Responders } from './responders.ts';

export interface QuarantineRouteDeps {
  /** Oldest first. */
  readonly listQuarantined: () => Promise<readonly QuarantinedFile[]>;
  readonly projects: Pick<Projects, 'list'>;
}

interface QuarantinedFile {
  readonly name: string;
  readonly bytes: number;
  readonly quarantinedAt: Date;
  readonly calls: readonly { readonly projectId: string; readonly startedAt: number | null }[];
}

export function addQuarantineRoutes({ read }: Responders, { listQuarantined, projects }: QuarantineRouteDeps): void {
  read('/quarantine', async () => {
    const [files, known] = await Promise.all([listQuarantined(), projects.list()]);
    const slugs = new Map(known.map(({ id, slug }) => [id, slug]));
    const data = files.map(({ name, bytes, quarantinedAt, calls }) => {
      // Don't spread the calls into `Math.min`, because there can be too many arguments.
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
  });
}
