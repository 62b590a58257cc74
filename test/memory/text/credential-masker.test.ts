/**
 * Tests that credentials in calls are never stored, and that a conversation can continue although its messages are
 * masked.
 */
import { expect, test } from '@jest/globals';
import { newId } from '../../../src/core/ids.ts';
import type { Database } from '../../../src/db/database.ts';
import type { NormalMessage } from '../../../src/dialects/prompt/prompt.ts';
import { maskCredentials } from '../../../src/guardrails/credentials.ts';
import { createEpisodes } from '../../../src/memory/conversations/episodes.ts';
import { createCredentialMasker } from '../../../src/memory/text/credential-masker.ts';
import { describeDatabases } from '../../db/databases.ts';
import { createProject, listConversationIds, listConversations, record, settledCall } from '../calls.ts';
import { readTextsOfPrompts } from '../find-text.ts';

const secret = 'sk-ant-api03-Zx81bQw72LmN04vTr95KpYs3';
const pem = `-----BEGIN PRIVATE KEY-----\n${'MIIEvQ8ABADANBgkqh7i'.repeat(4)}\n-----END PRIVATE KEY-----`;

const assistant = (args: string): NormalMessage => ({ role: 'assistant', text: '', toolCalls: [{ name: 'login', arguments: args }] });

async function dump(database: Database, projectId: string): Promise<string> {
  const tables = ['parts', 'call_texts', 'conversations', 'memory_passages'];
  const rows = await Promise.all(
    tables.map((table) => database.query(`select to_jsonb(t)::text as row from ${table} t where project_id = $1::uuid`, [projectId])),
  );
  return JSON.stringify([rows, await readTextsOfPrompts(database, projectId)]);
}

describeDatabases('credentials in calls', (database) => {
  test.each(['chat', 'messages', 'responses'] as const)("doesn't store a credential in any field of a call on %s", async (route) => {
    const projectId = await createProject(database());
    const system = `The vault answers to ${secret}`;
    const says = (role: string, content: string) => ({ role, content });
    const history = [
      says('user', `Here is my key: ${secret}. Keep it.`),
      says('assistant', `Noted:\n${pem}\nAnything else?`),
      says('user', 'Which key was it, and the password=hunter2x ?'),
    ];
    const bodyOf = (messages: readonly unknown[]) => {
      if (route === 'responses') return { instructions: system, input: messages };
      return route === 'messages' ? { system, messages } : { messages: [says('system', system), says('tool', system), ...messages] };
    };
    const calls = [
      settledCall({
        projectId,
        route,
        body: bodyOf(history.slice(0, 1)),
        answer: { text: `  Noted:\r\n${pem.replaceAll('\n', '\r\n')}\r\nAnything else?\n`, toolCalls: [] },
      }),
      settledCall({
        projectId,
        route,
        at: 9,
        body: bodyOf(history),
        answer: { text: `It was ${secret}`, toolCalls: [{ name: 'login', arguments: `{"api_key": "${secret}"}` }] },
      }),
    ];
    for (const call of calls) await record(database(), [call]);
    const filed = await listConversationIds(database(), calls);
    expect(new Set(filed).size).toBe(1);
    const [conversation] = await listConversations(database(), projectId);
    expect(conversation?.lines).toEqual([
      'u Here is my key: [credential]. Keep it.',
      'a   Noted:\r\n[credential]\r\nAnything else?\n',
      'u Which key was it, and the password=[credential] ?',
      'a It was [credential]',
    ]);
    await createEpisodes({ database: database() }).closeConversation({ conversationId: filed[0] ?? newId(0), opened: 1, idleMs: 0 });
    const kept = await dump(database(), projectId);
    expect(kept).toContain('The vault answers to [credential]');
    expect(kept).toContain('Here is my key: [credential]. Keep it.');
    expect(kept).not.toMatch(/Zx81bQw72|MIIEvQ8|hunter2x/);
  });
});

test('masks tool arguments the same way after a client has parsed and serialized them again', () => {
  const { maskMessage: message } = createCredentialMasker();
  const argumentsOf = (args: string): string | undefined => message(assistant(args)).toolCalls[0]?.arguments;
  const same = [
    '{"user":"ann","password":83123456789}',
    '{ "user": "ann",\n  "password": 83123456789 }',
    '{"user":"ann","passw\\u006frd":83123456789}',
  ];
  expect(new Set(same.map(argumentsOf))).toEqual(new Set(['{"user":"ann","password":[credential]}']));
  expect(argumentsOf(`{"key":"${secret.replace('-', '\\u002d')}"}`)).toBe('{"key":"[credential]"}');
  expect(argumentsOf('{ "city":  "Oslo" }')).toBe('{ "city":  "Oslo" }');
  expect(argumentsOf(`{"broken": "${secret}"`)).toBe('{"broken": "[credential]"');
});

test('searches only the new part of a repeated history for credentials', () => {
  let characters = 0;
  const { maskMessage: message, maskExtra: extra } = createCredentialMasker((text) => {
    characters += text.length;
    return maskCredentials(text);
  });
  const history = Array.from(
    { length: 40 },
    (_, n): NormalMessage => ({ role: 'user', text: `${n} https://a.example ${'long '.repeat(1_000)}`, toolCalls: [] }),
  );
  const system = { kind: 'system', type: 'system', text: 'See https://a.example. '.repeat(1_000), position: 0 } as const;
  history.map(message);
  extra(system);
  expect(characters).toBeGreaterThan(90_000);
  characters = 0;
  expect(history.map(message)).toEqual(history);
  expect(extra(system)).toEqual(system);
  message({ role: 'user', text: 'new: https://b.example', toolCalls: [] });
  expect(characters).toBe(`${system.type}new: https://b.example`.length);
  // Text that contains a credential is never cached as clean.
  const long = { role: 'user', text: `${secret} ${'long '.repeat(1_000)}`, toolCalls: [] } as const;
  expect([message(long), message(long)].map(({ text }) => text.slice(0, 12))).toEqual(['[credential]', '[credential]']);
});
