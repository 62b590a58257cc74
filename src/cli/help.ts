/** The help texts of the provisioning commands. */

const common = `Everywhere:
  --url <address>        the service; default: what it wrote to the data directory, else http://HOST:PORT
  --json                 the service's own answer
  -h, --help             this text

The admin token is taken from GATEWAY_ADMIN_TOKEN, else from gateway.yaml, else from <data directory>/admin-token.
`;

const usages = {
  projects: `Usage:
  gateway projects list
  gateway projects create <project> [--name <name>]
`,
  keys: `Usage:
  gateway keys create --project <project> [options]      the project is made when it does not exist
  gateway keys list   --project <project>
  gateway keys revoke <prefix> --project <project>
  gateway keys rotate <prefix> --project <project> [--grace <seconds>]

Options of create:
  --name <name>          what the key is for
  --models <a,b>         models and tiers it may use; default: all
  --rpm, --tpm <n>       calls and tokens a minute
  --calls <n>            calls in all   [--calls-window day|month|total]; default: month
  --cost <usd>           money in all   [--cost-window day|month|total]; default: month
  --expires <time>       RFC 3339, for example 2027-01-01T00:00:00Z

Options of rotate:
  --grace <seconds>      how long the old key stays valid; default: 0
`,
  calls: `Usage:
  gateway calls --project <project> [--limit <n>] [--task <id>] [--source <application>] [--before <call id>]
`,
  batches: `Usage:
  gateway batches list --project <project> [--state running|waiting|retrying|done|failed]
  gateway batches show <batch> --project <project>
  gateway batches replay <batch> --project <project>     tries again at once what failed or waits

A batch learns from conversations. It is waiting while no tier for memory has a model or memory is off, retrying after a failure until its next
try, and failed when a model gave five answers of no use; then its other parts are done, and it waits for a replay.
`,
  leases: `Usage:
  gateway leases list                what processes hold of ceilings
  gateway leases release <process>   writes off what a dead process held whose journal nobody can reach

The leases of a dead process come back by themselves where its journal can be reached, and with the end of their window.
`,
  catalog: `Usage:
  gateway catalog list                       the models in force, with prices and where each row is from
  gateway catalog import <file> [--as <name in the table>=<provider>]...
  gateway catalog remove <provider>/<model>  takes an imported row away

import reads the public price table (model_prices_and_context_window.json of LiteLLM) and puts the rows of your providers' vendors
in force at once, over the built-in ones; rows of gateway.yaml stay. A provider's vendor is known by the host of its address, else by the
provider's name, and --as names it where neither fits.
`,
  usage: `Usage:
  gateway usage reprice --from <time> --to <time> [--prices dated|now] [--models <provider>/<model>,...] [--project <project>]

Charges the stored calls that began in the window (from is in it, to is not) again, from what was counted: cost of calls and attempts, and what
ceilings have counted, in one transaction. Calls whose cost was unknown get one where there is a price. Doing it again changes nothing.

  --from, --to <time>    RFC 3339, for example 2026-11-01T00:00:00Z, or a day, which begins at midnight UTC
  --prices dated         the prices that were in force when the calls began; the default
  --prices now           the prices of now: after a mistake in a price was corrected. The price history of the window is corrected too, so
                         name the models whose price was wrong with --models; not with --project
  --models <a,b>         only calls that these have answered
  --project <project>    only calls of this project

Videos stay as they are: they cost what their model cost when they were started. So do calls of before the rows kept what models are charged by
beside tokens (images, characters, seconds, searches).
`,
};

const summaries: Readonly<Record<keyof typeof usages, string>> = {
  projects: 'list, create',
  keys: 'list, create, revoke, rotate',
  calls: 'the latest calls of a project',
  batches: 'list, show, replay: what memory learns from conversations',
  leases: 'list, release: what processes hold of ceilings',
  catalog: 'list, import, remove: models and their prices',
  usage: 'reprice: charges stored calls again',
};

/** A line for each of the commands that call a running service. */
export const overview = Object.entries(summaries)
  .map(([command, summary]) => `  ${command.padEnd(14)}${summary}\n`)
  .join('');

/** Help of one command, or of all when the word is none. */
export function usageFor(name: string | undefined): string {
  const usage = Object.entries(usages).find(([command]) => command === name)?.[1];
  return `${usage ?? Object.values(usages).join('\n')}\n${common}`;
}
