/** The help texts of the provisioning commands. */

const common = `Options of every command:
  --url <address>        address of the service; default: the one published in the data directory, else http://HOST:PORT
  --json                 print the service's response as JSON
  -h, --help             print this help

The admin token is taken from GATEWAY_ADMIN_TOKEN, else from gateway.yaml, else from <data directory>/admin-token.
`;

const usages = {
  projects: `Usage:
  gateway projects list
  gateway projects create <project> [--name <name>]
`,
  keys: `Usage:
  gateway keys create --project <project> [options]      create a key, and the project if it does not exist
  gateway keys list   --project <project>
  gateway keys revoke <prefix> --project <project>
  gateway keys rotate <prefix> --project <project> [--grace <seconds>]

Options of create:
  --name <name>          name of the key
  --models <a,b>         models and tiers that the key may use; default: all
  --rpm, --tpm <n>       calls and tokens per minute
  --calls <n>            number of calls   [--calls-window day|month|total]; default: month
  --cost <usd>           cost of calls     [--cost-window day|month|total]; default: month
  --expires <time>       RFC 3339, for example 2027-01-01T00:00:00Z

Options of rotate:
  --grace <seconds>      how long the old key stays valid; default: 0
`,
  calls: `Usage:
  gateway calls --project <project> [--limit <n>] [--task <id>] [--source <application>] [--before <call id>]
`,
  batches: `Usage:
  gateway batches list [--project <project>] [--state running|waiting|retrying|done|failed|stopped]
  gateway batches show <batch>
  gateway batches replay <batch>                                     retry failed and waiting groups immediately
  gateway batches replay --project <project> --state failed|stopped  replay all batches of the project in this state

A batch learns memories from conversations. It is waiting while memory is off or no memory tier has a model, retrying between a failure and
its next attempt, failed after five unusable model responses of a group, and stopped when an operator terminated or cancelled its run in
Temporal. A failed or stopped batch needs a replay; its groups that are done stay. RUN is the address of its run in Temporal's web UI.
`,
  leases: `Usage:
  gateway leases list                list the leases that processes hold on ceilings
  gateway leases release <process>   release the leases of a dead process whose journal is lost

A dead process's leases are released automatically when its journal is recovered, and at the end of their window.
`,
  catalog: `Usage:
  gateway catalog list                       list the active models with prices and the origin of each row
  gateway catalog import <file> [--as <name in the table>=<provider>]...
  gateway catalog remove <provider>/<model>  remove an imported row

import reads the public price table (model_prices_and_context_window.json of LiteLLM) and activates the rows of your providers' vendors
immediately. They replace built-in rows, but not rows of gateway.yaml. A provider's vendor is matched by the host of its base URL, else by the
provider's name; --as names it where neither matches.
`,
  usage: `Usage:
  gateway usage reprice --from <time> --to <time> [--prices dated|now] [--models <provider>/<model>,...] [--project <project>]

Recalculates the cost of stored calls that started between --from (inclusive) and --to (exclusive) from their recorded usage: calls, attempts
and the counters of ceilings, in one transaction. Calls of unknown cost get one if there is a price. Repeating it changes nothing.

  --from, --to <time>    RFC 3339, for example 2026-11-01T00:00:00Z, or a date, which means midnight UTC
  --prices dated         use the prices that were active when the calls started; the default
  --prices now           use the current prices, after correcting a wrong one. Also corrects the price history of that time, so limit it to
                         the affected models with --models; not with --project
  --models <a,b>         only calls served by these models
  --project <project>    only calls of this project

Videos keep the cost of their start. So do calls stored before their usage was recorded in units other than tokens (images, characters,
seconds, searches).
`,
};

const summaries: Readonly<Record<keyof typeof usages, string>> = {
  projects: 'list and create projects',
  keys: 'create, list, revoke and rotate virtual keys',
  calls: 'list the latest calls of a project',
  batches: 'list, show and replay learning batches',
  leases: 'list leases on ceilings, release those of dead processes',
  catalog: 'list models and prices, import and remove rows',
  usage: 'reprice stored calls',
};

/** One line per command that calls a running service. */
export const overview = Object.entries(summaries)
  .map(([command, summary]) => `  ${command.padEnd(14)}${summary}\n`)
  .join('');

/** Help of one command, or of all for an unknown name. */
export function usageFor(name: string | undefined): string {
  const usage = Object.entries(usages).find(([command]) => command === name)?.[1];
  return `${usage ?? Object.values(usages).join('\n')}\n${common}`;
}
