/** The help texts of the provisioning commands. */

const common = `Everywhere:
  --url <address>        the service; default: what it wrote to the data directory, else http://HOST:PORT
  --json                 the service's own answer
  -h, --help             this text

The admin token is taken from GATEWAY_ADMIN_TOKEN, else from <data directory>/admin-token.
`;

const usages: Readonly<Record<string, string>> = {
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
};

/** Help of one command, or of all when the word is none. */
export function usageOf(word: string | undefined): string {
  const usage = word === undefined ? undefined : usages[word];
  return `${usage ?? Object.values(usages).join('\n')}\n${common}`;
}
