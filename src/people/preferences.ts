/** A person's preferences for the console. They are stored in the `people` table and read together with the session. */
import { z } from 'zod';
import { parseOrBadRequest } from '../core/parse-or-bad-request.ts';
import { isTimeZone } from '../core/time-zone.ts';
import type { Queries } from '../db/database.ts';

export const themes = ['light', 'dark'] as const;

export interface Preferences {
  /** The console's theme. Null to follow the browser's setting. */
  readonly theme: (typeof themes)[number] | null;
  /** An IANA time zone. Null to use the project's report time zone. */
  readonly timeZone: string | null;
}

export const noPreferences: Preferences = { theme: null, timeZone: null };

const theme = z.enum(themes, 'must be light, dark or empty').nullable();
const timeZone = z.string().max(64).refine(isTimeZone, 'must be the IANA name of a time zone, for example Europe/Berlin').nullable();

/** Reads preferences from a row of `people`. Values that this version doesn't support become null. */
export function toPreferences(row: { readonly theme: string | null; readonly timeZone: string | null }): Preferences {
  return { theme: theme.safeParse(row.theme).data ?? null, timeZone: timeZone.safeParse(row.timeZone).data ?? null };
}

/** Changes only the preferences in `input`. Throws `bad_request`. */
export async function setPreferences(
  queries: Queries,
  personId: string,
  input: { readonly theme?: string | null; readonly time_zone?: string | null },
): Promise<void> {
  const given = parseOrBadRequest(z.object({ theme: theme.optional(), time_zone: timeZone.optional() }), input);
  await queries.query(
    `update people
        set theme = case when $2::boolean then $3::text else theme end,
            time_zone = case when $4::boolean then $5::text else time_zone end
      where id = $1::uuid`,
    [personId, given.theme !== undefined, given.theme ?? null, given.time_zone !== undefined, given.time_zone ?? null],
  );
}
