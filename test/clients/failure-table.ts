/** Renders a table of what clients report when a vendor fails, both directly and through the gateway. */
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
    'In this test, the vendor fails. Each client calls it directly first, and then through a gateway that has no other vendor',
    'to fall back to, both with a chat vendor and with a messages vendor. The cells show what the client does:',
    '',
    '- `error`: it raises an error.',
    '- `overflow`: it recognizes that the prompt exceeds the context window.',
    '- `complete`: it returns the complete text, possibly after a retry of its own.',
    '- `truncated`: it returns a truncated text as if it were complete.',
    '- `hangs`: it neither returns nor raises an error.',
    '',
    'If the gateway makes a difference, the cell shows the result without and with the gateway, separated by an arrow. If a',
    "cell is empty, the client doesn't support the call.",
    '',
    "To recognize prompts that are too long, dspy, agno, inspect-ai, pydantic-ai and LangChain's OpenAI package for TypeScript",
    'look for a code or message that only their own vendor uses. By default, they may not find it, because `code` is the',
    "gateway's own code, and the message may come from a vendor of the other dialect. That is why we tested these clients with",
    '[`error_codes: vendor`](api/reference.md#vendor-codes).',
    '',
    ...renderTable(head, rows),
    '',
    'When all models of the plan fail, the gateway responds with 502 `upstream_failed`, no matter whether the vendor sent a',
    '401 or a 529. Expect your client to raise its exception for server errors in these cases.',
    '',
    'After a 401, the response also has the header `x-should-retry: false`, which keeps the SDKs of OpenAI and Anthropic from',
    'retrying in vain. LangChain for TypeScript ignores it and retries six times over about a minute.',
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
