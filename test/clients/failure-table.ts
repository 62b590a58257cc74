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
  return [...renderTable(head, rows), '', ...(differences.length === 0 ? ['Every error has the same class and status.'] : differences)];
}

function cellOf({ failures: outcomes = {} }: ClientRecord, name: FailureName): string {
  const { direct, chat, messages } = outcomes[name] ?? {};
  if (!direct || !chat || !messages) return '';
  const [before, ...after] = [direct, chat, messages].map(textOf);
  const through = [...new Set(after)];
  const isWorse = [chat, messages].some((outcome) => compareOutcomes(direct, outcome) === 'worse');
  const text = through.length === 1 && through[0] === before ? before : `${before} → ${through.join(' / ')}`;
  return isWorse ? `**worse**: ${text}` : `${text}`;
}

function textOf({ kind }: FailureOutcome): string {
  return kind;
}

function differencesOf({ name: client, version, api, failures: outcomes = {} }: ClientRecord, name: FailureName): string[] {
  const { direct, ...through } = outcomes[name] ?? {};
  if (direct === undefined) return [];
  return vendors.flatMap((vendor) => {
    const outcome = through[vendor];
    if (outcome === undefined || compareOutcomes(direct, outcome) !== 'other error') return [];
    const where = `\`${client}\` ${version}, ${api}, ${failures[name].title}, ${vendor} vendor`;
    return [`- ${where}: ${errorOf(direct)} directly, ${errorOf(outcome)} through the gateway`];
  });
}

function errorOf({ error, status }: FailureOutcome): string {
  return status === undefined ? `\`${error}\`` : `\`${error}\` ${status}`;
}
