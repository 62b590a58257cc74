/** People with tokens and MCP clients, for the tests of `/mcp`. */
import { randomBytes } from 'node:crypto';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { newId } from '../../src/core/ids.ts';
import { systemClock } from '../../src/core/time.ts';
import { createMembers } from '../../src/people/members.ts';
import type { Person } from '../../src/people/person.ts';
import { createPersonalTokens } from '../../src/people/personal-tokens.ts';
import { type Scope, scopes } from '../../src/people/scopes.ts';
import type { TestGateway } from '../support/gateway.ts';

/** Creates a person who is a member of the projects. */
export async function addPerson({ app, database }: TestGateway, projects: readonly string[]): Promise<Person> {
  const name = `person-${randomBytes(6).toString('hex')}`;
  const person = { id: newId(0), email: `${name}@example.com`, name, isAdmin: false };
  await database.query('insert into people (id, email, name, is_admin, created_at) values ($1::uuid, $2::text, $3::text, false, now())', [
    person.id,
    person.email,
    person.name,
  ]);
  for (const slug of projects) {
    const project = await app.projects.findBySlug(slug);
    if (project) await createMembers({ database, clock: systemClock }).put(project.id, person.id, 'member');
  }
  return person;
}

export async function issueToken({ database }: TestGateway, person: Person, granted: readonly Scope[] = scopes): Promise<string> {
  const tokens = createPersonalTokens({ database, clock: systemClock });
  return (await tokens.create(person.id, { name: 'test', scopes: granted, days: 1 })).token;
}

/**
 * The protocol versions: `legacy` opens with `initialize`, and `auto` uses the stateless revision if the server
 * supports it.
 */
export const eras = ['legacy', 'auto'] as const;

/** Runs `work` with a connected client and then closes it. */
export async function withClient<Result>(
  { url }: TestGateway,
  { token, era = 'auto' }: { readonly token: string; readonly era?: (typeof eras)[number] },
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: era } });
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { authProvider: { token: async () => token } }));
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

/** Returns the structured content of a tool call and throws if it is an error. */
export async function callTool(client: Client, name: string, args: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
  const result = await client.callTool({ name, arguments: args });
  if (result.isError) throw new Error(errorText(result));
  return result.structuredContent as Record<string, unknown>;
}

/** Returns the text of a failed tool call and throws if it succeeded. */
export async function callToolError(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const result = await client.callTool({ name, arguments: args });
  if (!result.isError) throw new Error('the tool call succeeded');
  return errorText(result);
}

function errorText({ content }: { readonly content: readonly { readonly type: string; readonly text?: string }[] }): string {
  return content.map(({ text = '' }) => text).join('\n');
}
