/**
 * Stores videos. When a vendor accepts an operation, we insert a row together with the outbox row of the workflow that
 * polls it. Whoever learns the result first settles the video and the cost of its call, and settling it again has no
 * effect.
 */
import { createHash } from 'node:crypto';
import type { Outcome } from '../core/call.ts';
import { unitsCost } from '../core/cost.ts';
import { gatewayError } from '../core/errors.ts';
import { isConnectionError } from '../db/connection-errors.ts';
import type { Database, Queries } from '../db/database.ts';
import { enqueue, enqueueInPages, type OutboxEntry } from '../db/outbox.ts';
import { withQueryTimeout } from '../db/query-timeout.ts';

export interface NewVideo {
  readonly callId: string;
  readonly projectId: string;
  readonly provider: string;
  readonly model: string;
  readonly operation: string;
  /** Null if the price is unknown. */
  readonly secondNanos: number | null;
  readonly durationMs: number;
  readonly samples: number;
  readonly startedAt: number;
}

export interface Video extends NewVideo {
  readonly state: 'running' | 'done' | 'failed' | 'unknown';
  readonly uris: readonly string[];
  readonly failure: string | null;
  readonly polledAt: number | null;
}

/** How a video ended. `unknown` means that we gave up polling. */
export type VideoResult =
  | { readonly kind: 'done'; readonly uris: readonly string[]; readonly fileKeys: readonly string[] }
  | { readonly kind: 'failed'; readonly failure: string }
  | { readonly kind: 'unknown' };

/** Corrects the stored row of the call that started the video. If `outcome` is null, the row keeps its outcome. */
export interface VideoCorrection {
  readonly callId: string;
  readonly outcome: Outcome | null;
  readonly code: string | null;
  readonly costNanos: number | null;
  readonly estimated: boolean;
}

interface VideosDeps {
  readonly database: Database;
  /** Corrects calls that are already in the database, as a part of the transaction `tx`. */
  readonly correctCalls: (tx: Queries, corrections: readonly VideoCorrection[]) => Promise<unknown>;
}

export type Videos = ReturnType<typeof createVideos>;

/**
 * All functions reject with `budget_unavailable` if the database is unavailable, because a video can't be started
 * without recording it.
 */
export function createVideos({ database, correctCalls }: VideosDeps) {
  const mapUnavailable = async <Result>(work: Promise<Result>): Promise<Result> => {
    try {
      return await withQueryTimeout(database, work);
    } catch (cause) {
      if (!isConnectionError(cause)) throw cause;
      throw gatewayError('budget_unavailable', { message: 'videos cannot be saved right now', cause });
    }
  };
  const findVideo = async (condition: string, values: readonly unknown[]): Promise<Video | null> => {
    const [row] = await mapUnavailable(database.query<VideoRow>(`${selectVideo} ${condition}`, values));
    return row ? toVideo(row) : null;
  };

  return {
    /** Rejects with `budget_unavailable` if the database is unavailable. */
    async assertWritable(): Promise<void> {
      await mapUnavailable(database.query('select 1 from videos limit 1'));
    },

    /** Inserts the video and the outbox row of its workflow. Idempotent, so it's safe to retry. */
    add: (video: NewVideo): Promise<void> =>
      mapUnavailable(
        database.transaction(async (tx) => {
          await tx.query(
            `insert into videos (
             call_id, project_id, provider, model, operation, state, second_nanos, duration_ms, samples, cost_nanos, started_at
           )
           values ($1::uuid, $2::uuid, $3::text, $4::text, $5::text, 'running', $6::bigint, $7::integer, $8::integer, $9::bigint, $10::timestamptz)
           on conflict (call_id) do nothing`,
            [
              video.callId,
              video.projectId,
              video.provider,
              video.model,
              video.operation,
              video.secondNanos,
              video.durationMs,
              video.samples,
              videoCost(video, video.samples),
              new Date(video.startedAt),
            ],
          );
          await enqueue(tx, [toOutboxEntry(video)]);
        }),
      ),

    get: (callId: string) => findVideo('where call_id = $1::uuid', [callId]),
    /**
     * Only compares the id at the end of the name, because vendors may accept the id without the model, or with another
     * one. If several projects have a video with this id, prefers the video of the given project.
     */
    findByOperation: (projectId: string, operation: string) =>
      findVideo(`where ${operationId} = $2::text order by project_id = $1::uuid desc, operation = $3::text desc, started_at desc limit 1`, [
        projectId,
        operation.slice(operation.lastIndexOf('/') + 1),
        operation,
      ]),
    findByFile: (projectId: string, fileKey: string) =>
      findVideo('where file_keys @> array[$2::text] order by project_id = $1::uuid desc, started_at desc limit 1', [projectId, fileKey]),

    async recordPoll(callId: string, polledAt: number): Promise<void> {
      await mapUnavailable(
        database.query('update videos set polled_at = $2::timestamptz where call_id = $1::uuid', [callId, new Date(polledAt)]),
      );
    },

    settle: (video: Video, result: VideoResult, settledAt: number): Promise<void> =>
      mapUnavailable(
        database.transaction(async (tx) => {
          const rows = await tx.query<CorrectionRow>(
            `update videos
              set state = $2::text, uris = $3::text[], file_keys = $4::text[], failure = $5::text, cost_nanos = $6::bigint,
                  polled_at = $7::timestamptz, settled_at = $7::timestamptz
            where call_id = $1::uuid and (state = 'running' or (state = 'unknown' and $2::text <> 'unknown'))
            returning ${correctionColumns}`,
            [
              video.callId,
              result.kind,
              result.kind === 'done' ? result.uris : [],
              result.kind === 'done' ? result.fileKeys : [],
              result.kind === 'failed' ? result.failure : null,
              resultCost(video, result),
              new Date(settledAt),
            ],
          );
          await correctCalls(tx, rows.map(toCorrection));
        }),
      ),
  };
}

/**
 * Returns corrections for the videos of calls that `tx` is storing, and locks the videos until `tx` ends. Without the
 * lock, a correction could get lost if somebody settles a video at the same time. With it, either we see the result
 * here, or they see the stored call.
 */
export async function lockCorrections(tx: Queries, callIds: readonly string[]): Promise<readonly VideoCorrection[]> {
  if (callIds.length === 0) return [];
  const rows = await tx.query<CorrectionRow>(
    `select ${correctionColumns} from videos where call_id = any ($1::uuid[]) order by call_id for update`,
    [callIds],
  );
  return rows.map(toCorrection);
}

/**
 * Enqueues the polling workflows of all running videos again, in case Temporal has lost its state. Workflows that are
 * still running aren't started twice.
 */
export function reenqueueVideoPolls(database: Database): Promise<void> {
  const text = `select call_id as id, call_id as "callId", project_id as "projectId", provider, operation from videos
                 where state = 'running' and call_id > $1::uuid order by call_id limit $2::integer`;
  return enqueueInPages<VideoKey & { readonly id: string }>(database, text, toOutboxEntry);
}

/**
 * Returns the price of `samples` videos in nano-dollars. Rounds only the total, so that rounding errors don't add up.
 */
function videoCost({ secondNanos, durationMs }: Pick<NewVideo, 'secondNanos' | 'durationMs'>, samples: number): number | null {
  if (secondNanos === null) return null;
  const prices = { perSecondNanos: BigInt(secondNanos), perImageNanos: null, perMillionCharactersNanos: null };
  return unitsCost({ seconds: (durationMs * samples) / 1_000 }, prices);
}

/** Failed videos are free. If the result is unknown, we charge the estimate. */
function resultCost(video: Video, result: VideoResult): number | null {
  switch (result.kind) {
    case 'done':
      return videoCost(video, result.uris.length);
    case 'failed':
      return 0;
    case 'unknown':
      return videoCost(video, video.samples);
  }
}

type VideoKey = Pick<NewVideo, 'callId' | 'projectId' | 'provider' | 'operation'>;

/** Vendors may reuse operation names, so the workflow id also contains the call id. */
function toOutboxEntry({ callId, projectId, provider, operation }: VideoKey): OutboxEntry {
  const hash = createHash('sha256').update([provider, operation, callId].join('\n')).digest('hex');
  return { workflow: 'videoOperation', workflowId: `video/${hash}`, input: { call_id: callId }, projectId };
}

type VideoRow = Omit<Video, 'startedAt' | 'polledAt'> & { readonly startedAt: Date; readonly polledAt: Date | null };

const selectVideo = `
  select call_id as "callId", project_id as "projectId", provider, model, operation, state, uris, failure, second_nanos as "secondNanos",
         duration_ms as "durationMs", samples, started_at as "startedAt", polled_at as "polledAt"
    from videos`;

/** The same expression as in the index `videos_by_operation_id`. */
const operationId = "regexp_replace(operation, '^.*/', '')";

function toVideo(row: VideoRow): Video {
  return { ...row, startedAt: row.startedAt.getTime(), polledAt: row.polledAt?.getTime() ?? null };
}

interface CorrectionRow {
  readonly callId: string;
  readonly state: Video['state'];
  readonly costNanos: number | null;
}

const correctionColumns = 'call_id as "callId", state, cost_nanos as "costNanos"';

function toCorrection({ callId, state, costNanos }: CorrectionRow): VideoCorrection {
  const estimated = state === 'running' || state === 'unknown';
  const outcome = state === 'failed' || state === 'unknown' ? state : null;
  return { callId, outcome, code: state === 'failed' ? 'video_failed' : null, costNanos, estimated };
}
