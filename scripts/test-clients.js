/**
 * Runs real clients (SDKs, frameworks, coding agents) and unknown vendors against a private service, and records the
 * results in `test/clients/record.json` and docs/clients.md. Clients are installed into the cache directory. Exits with
 * 1 if something doesn't work.
 *
 *   npm run test-clients [-- NAME ...]     only those whose name contains one of the names
 */
import { recordMatrix } from '../test/clients/matrix.ts';

if (!(await recordMatrix(process.argv.slice(2)))) process.exitCode = 1;
