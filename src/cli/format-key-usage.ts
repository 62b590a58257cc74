/** Formats the report of `gateway payload-key check`. For each key, it says what still needs it and what to do next. */
import type { PayloadKeyUsage } from '../temporal/client/payload-key-usage.ts';
import { formatTable } from './table.ts';

export type KeyUsageReport = ReturnType<typeof describeKeyUsage>;

/**
 * Reports on each key in TEMPORAL_PAYLOAD_KEY, in the order of the variable. Keys that are needed but aren't in the
 * variable come last.
 */
export function describeKeyUsage({ runs, schedules, keys }: PayloadKeyUsage, configuredIds: readonly string[]) {
  const missingIds = [...keys.keys()].filter((id) => !configuredIds.includes(id)).toSorted();
  const describe = (id: string) => {
    const { runs, schedules, examples } = keys.get(id) ?? { runs: 0, schedules: 0, examples: [] };
    const position = configuredIds.indexOf(id);
    return {
      ...{ id, configured: position >= 0, runs, schedules },
      /** A few of the workflows and schedules that need the key, as examples. */
      examples,
      advice: adviceFor(position, runs + schedules > 0),
    };
  };
  return { runs, schedules, keys: [...configuredIds, ...missingIds].map(describe) };
}

function adviceFor(position: number, isNeeded: boolean): string {
  if (position < 0) return 'add this key to TEMPORAL_PAYLOAD_KEY, or terminate these runs, which cannot continue without it';
  if (position === 0) return 'keep, because it encrypts new payloads';
  return isNeeded
    ? 'keep until these runs have ended'
    : 'not needed: remove it with rotate --remove, or promote it with rotate --promote if it is new';
}

export function formatKeyUsage({ runs, schedules, keys }: KeyUsageReport): string {
  const header = `${runs} open ${runs === 1 ? 'run' : 'runs'}, ${schedules} ${schedules === 1 ? 'schedule' : 'schedules'}\n`;
  if (keys.length === 0) return `${header}Nothing is encrypted, and TEMPORAL_PAYLOAD_KEY is not set.\n`;
  const rows = keys.map(({ id, configured, runs: needing, schedules: needingSchedules, examples, advice }) => [
    id,
    configured ? 'yes' : 'MISSING',
    needing,
    needingSchedules,
    advice,
    examples,
  ]);
  return `${header}${formatTable(['KEY', 'CONFIGURED', 'RUNS', 'SCHEDULES', 'WHAT TO DO', 'FOR EXAMPLE'], rows)}`;
}
