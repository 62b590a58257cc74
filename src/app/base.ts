import type { Clock } from '../core/time.ts';
import type { Database } from '../db/database.ts';
import type { Logger } from '../observability/logger.ts';
import type { ConfigSnapshot } from './config-snapshot.ts';

/** Dependencies that most parts of the app have in common. */
export interface AppBase {
  readonly snapshot: () => ConfigSnapshot;
  readonly database: Database;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly logger: Logger;
}
