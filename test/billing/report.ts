/** Describes the violations in a run. The output is detailed enough to see how each request was billed and recorded. */

import { format, type RunResult, type Sentence, sentences, type Violation } from './invariants.ts';
import { nanosOf, totalTokens } from './ledger.ts';

const mostLines = 5;

export function describeViolations(result: RunResult, violations: readonly Violation[]): string {
  const { seed, calls, ...plan } = result.plan;
  const groups = Map.groupBy(violations, ({ sentence }) => sentence);
  return [
    `seed ${seed}: ${calls.length} calls under ${JSON.stringify(plan)}`,
    ...[...groups].flatMap(([sentence, found]) => [
      `broken: ${sentences[sentence as Sentence]} (${found.length} times)`,
      ...found
        .slice(0, mostLines)
        .flatMap(({ detail, calls: names }) => [`  ${detail}`, ...names.flatMap((name) => describeCall(result, name))]),
    ]),
  ].join('\n');
}

function describeCall({ plan, bills, recorded, received }: RunResult, name: string): string[] {
  const call = plan.calls.find((candidate) => candidate.name === name);
  const answer = received.get(name);
  const rows = recorded.filter((row) => row.name === name);
  const { messages: _messages, input: _input, ...members } = call?.body ?? {};
  return [
    `    ${name}: ${call?.path} ${shorten(JSON.stringify(members))} ${JSON.stringify(call?.headers)}, leaving ${JSON.stringify(call?.leaving)}`,
    `      script ${JSON.stringify(call?.script)}`,
    `      received ${answer?.status} ${answer?.isWhole ? 'whole' : 'in part'}, ${answer?.deliveredCharacters} characters${answer?.isFinished ? ', finished' : ''}`,
    ...bills(name).map((bill) => {
      const { model, tokens, compaction, tier, webSearches, isBackground, failure } = bill;
      const extras = JSON.stringify({ tier, compaction: totalTokens(compaction), webSearches, isBackground, failure });
      return `      billed ${model.id} ${format(nanosOf(bill), totalTokens(tokens))} ${JSON.stringify(tokens)} ${extras}`;
    }),
    ...rows.map(
      ({ id, model, outcome, status, estimated, costNanos, tokens }) =>
        `      recorded ${id} ${model} ${outcome} ${status} ${format(costNanos, totalTokens(tokens))} ${JSON.stringify(tokens)}${estimated ? ' estimated' : ''}`,
    ),
  ];
}

function shorten(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
