/** Renders what clients report when a vendor fails, directly and through the gateway. */
import { vendors } from './cases.ts';
import { compareOutcomes, type FailureName, type FailureOutcome, failureNames, failures } from './failures.ts';
import { renderTable } from './markdown.ts';
import { type ClientRecord, languages } from './record.ts';

/** One row per client, then the clients that raise another error through the gateway. */
export function renderFailures(clients: readonly ClientRecord[]): string[] {
  const tried = clients.filter((client) => client.failures !== undefined);
  const head = ['Client', 'Version', 'Language', 'API', ...failureNames.map((name) => failures[name].title)];
  const rows = tried.map((client) => [
    ...[`\`${client.name}\``, client.version ?? '', languages[client.runtime], client.api],
    ...failureNames.map((name) => cellOf(client, name)),
  ]);
  const differences = tried.flatMap((client) => failureNames.flatMap((name) => differencesOf(client, name)));
  return [
    'Each client calls a vendor that fails, first directly and then through a gateway that has no other vendor. We make the',
    'call through the gateway once with a vendor of the chat dialect and once with a vendor of the messages dialect. A cell',
    'shows what the client does:',
    '',
    '- `error`: it raises an error.',
    '- `overflow`: it recognizes that the prompt exceeds the context window.',
    '- `complete`: it returns the complete text, possibly after a retry of its own.',
    '- `truncated`: it returns a truncated text as if it were complete.',
    '- `hangs`: it neither returns nor raises an error.',
    '',
    'If the client behaves differently through the gateway, the cell shows what it does directly, an arrow, and what it does',
    "through the gateway. A cell is empty if the client doesn't support the call. In this test, the project of dspy, agno and",
    'inspect-ai has `error_codes: vendor`, because these clients recognize an overflow of the chat API by its `code`.',
    '',
    ...renderTable(head, rows),
    '',
    'If every model in the plan fails, the gateway responds with 502 `upstream_failed`, even if the vendor sent 401 or 529.',
    'Clients therefore raise the class that they use for server errors. After a 401, the response also has',
    "`x-should-retry: false`, so the SDKs of OpenAI and Anthropic don't send the call again. LangChain for TypeScript ignores",
    'this header and repeats the call six times over about a minute.',
    '',
    ...(differences.length === 0
      ? ['Every error has the same class and status through the gateway as directly.']
      : ['Through the gateway, these errors have a different class or status:', '', ...differences]),
  ];
}

function cellOf({ failures: outcomes = {} }: ClientRecord, name: FailureName): string {
  const { direct, chat, messages } = outcomes[name] ?? {};
  if (!direct || !chat || !messages) return '';
  const [before, ...after] = [direct, chat, messages].map(({ kind }) => kind);
  const through = [...new Set(after)];
  const isWorse = [chat, messages].some((outcome) => compareOutcomes(direct, outcome) === 'worse');
  const text = through.length === 1 && through[0] === before ? `${before}` : `${before} → ${through.join(' / ')}`;
  return isWorse ? `**worse**: ${text}` : text;
}

function differencesOf({ name: client, version, api, failures: outcomes = {} }: ClientRecord, name: FailureName): string[] {
  const { direct, ...through } = outcomes[name] ?? {};
  if (direct === undefined) return [];
  const others = vendors.flatMap((vendor) => {
    const outcome = through[vendor];
    return outcome !== undefined && compareOutcomes(direct, outcome) === 'other error' ? [{ vendor, error: errorOf(outcome) }] : [];
  });
  return [...new Set(others.map(({ error }) => error))].map((error) => {
    const on = others.filter((other) => other.error === error).map(({ vendor }) => vendor);
    const where = `\`${client}\` ${version}, ${api}, ${failures[name].title}`;
    return `- ${where}: ${errorOf(direct)} directly, ${error} through the gateway (${on.join(' and ')} vendor)`;
  });
}

function errorOf({ error, status }: FailureOutcome): string {
  return status === undefined ? `\`${error}\`` : `\`${error}\` ${status}`;
}
