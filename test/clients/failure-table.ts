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
    'We let a vendor fail and look at what each client reports. First, the client calls the vendor directly. Then it calls',
    'the vendor through a gateway that has no other vendor to use instead. We do this with a vendor of the chat dialect and',
    'with one of the messages dialect. A cell shows what the client does:',
    '',
    '- `error`: it raises an error.',
    '- `overflow`: it recognizes that the prompt exceeds the context window.',
    '- `complete`: it returns the complete text, possibly after a retry of its own.',
    '- `truncated`: it returns a truncated text as if it were complete.',
    '- `hangs`: it neither returns nor raises an error.',
    '',
    'If the gateway makes a difference, the cell shows what the client does without it, an arrow, and what it does with it.',
    "The cell is empty if the client doesn't support the call.",
    '',
    'The clients dspy, agno and inspect-ai use `code` to recognize that a prompt is too long for a chat model. We therefore',
    'set `error_codes: vendor` for their project in this test.',
    '',
    ...renderTable(head, rows),
    '',
    'If every model in the plan fails, the gateway responds with 502 `upstream_failed`, even if the vendor sent 401 or 529.',
    'Clients treat this as an error of the server, so you may see a different exception than before.',
    '',
    'Retrying is pointless after a 401, so the gateway adds `x-should-retry: false` to the response, and the SDKs of OpenAI',
    "and Anthropic don't send the call again. LangChain for TypeScript ignores this header and repeats the call six times",
    'over about a minute.',
    '',
    ...(differences.length === 0
      ? ['Every error has the same class and status through the gateway as directly.']
      : ['These errors have a different class or status through the gateway:', '', ...differences]),
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
