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
    'Each client makes the same call twice: directly to a vendor that fails, and through the gateway with that vendor as the only choice. The',
    'vendor of the gateway speaks first the chat and then the messages dialect. The client then raises an `error`, recognizes an `overflow` of',
    'the context window, returns the `complete` text, possibly after a retry of its own, returns a `truncated` text as if it were complete, or',
    '`hangs`, which means that it neither returns nor raises. An arrow leads from the direct call to the calls through the gateway, when these',
    'differ. An empty cell is a call that the client does not have. dspy, agno and inspect-ai recognize an overflow of the chat API by',
    '`code`, so their project has `error_codes: vendor` here.',
    '',
    ...renderTable(head, rows),
    '',
    'A 401 or 529 of the vendor is 502 `upstream_failed` at the gateway, like any failure of every model in the plan, so clients raise the class',
    "that they have for a server error. After a 401 the response also has `x-should-retry: false`, and the SDKs of OpenAI and Anthropic don't",
    'send the call again. LangChain for TypeScript does not read the header and repeats the call six times, for about a minute.',
    '',
    ...(differences.length === 0
      ? ['Every error has the same class and status.']
      : ['These errors have another class or status through the gateway:', '', ...differences]),
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
