/**
 * Connects the tools of `/mcp` to the modules that `app.ts` has created. `mcp.ts` loads this file on the first request.
 */
import { changedMembers } from '../core/changed-members.ts';
import type { Access } from '../mcp/access.ts';
import { createMcpEndpoint, type McpEndpoint, type McpEndpointDeps } from '../mcp/endpoint.ts';
import { createOidcTokens } from '../mcp/oidc-tokens.ts';
import type { ResourceSettings } from '../mcp/resource.ts';
import { createBatchesTool } from '../mcp/tools/batches.ts';
import { createExplainCallTool } from '../mcp/tools/explain-call.ts';
import { createMemorySettingsTools, type LastChange } from '../mcp/tools/memory-settings.ts';
import { createSearchMemoryTool } from '../mcp/tools/search-memory.ts';
import { createUsageTool, type UsageToolDeps } from '../mcp/tools/usage.ts';
import { previewRetention } from '../memory/records/deletion-rule.ts';
import type { MemorySettingsChange } from '../memory/records/settings.ts';
import { findPersonOf } from '../people/identity.ts';
import { recordChange } from '../people/record-change.ts';
import { backgroundCaller } from '../pipeline/call/internal-call.ts';
import { findCall } from '../usage/call-rows.ts';
import { findRefused } from '../usage/refusals/read-refusals.ts';
import type { ConsoleDeps } from './console-deps.ts';

export interface McpDeps extends Pick<ConsoleDeps, 'database' | 'people' | 'audit' | 'memory' | 'learning' | 'clock' | 'logger'> {
  readonly resource: () => ResourceSettings;
  readonly bodyShares: McpEndpointDeps['bodyShares'];
  readonly getUsage: UsageToolDeps['getUsage'];
  /**
   * Runs a query after this process has stored the project's calls, so that people see the calls that they've just
   * made.
   */
  readonly readStored: <Result>(query: () => Promise<Result>, projectId: string) => Promise<Result>;
}

/** `/provision` uses the same name for this action, so the audit log doesn't distinguish between the two. */
const changeAction = 'memory.update';
/** The console has a button that cancels a planned deletion, and it uses a name of its own for that. */
const changeActions = [changeAction, 'memory.cancel_deletion'];

export function createConnectedEndpoint(deps: McpDeps): McpEndpoint {
  const { database, people, audit, clock, logger, resource, memory, learning, getUsage, readStored, bodyShares } = deps;

  const readLastChange = async (projectId: string): Promise<LastChange | null> => {
    const entries = await audit.list({ projectId, action: changeActions, limit: 20 });
    const last = entries.find(({ outcome }) => outcome === 'ok');
    return last ? { at: last.at, by: last.person?.email ?? (last.actor === 'admin_token' ? 'admin token' : null) } : null;
  };
  const changeSettings = ({ person, actor, client }: Access, projectId: string, input: unknown): Promise<MemorySettingsChange> =>
    recordChange({ audit, logger }, { actor, personId: person.id, projectId, action: changeAction }, async (note) => {
      note({ client, tool: 'gateway_set_memory_settings' });
      const result = await memory.settings.change(projectId, input);
      note({ changed: changedMembers(result.previous, result.settings) });
      return result;
    });

  return createMcpEndpoint({
    resource,
    tokens: {
      async findPersonalToken(token) {
        const found = await people.personalTokens.find(token);
        if (!found) return null;
        const { person, record } = found;
        return { person, scopes: record.scopes, expiresAt: record.expiresAt, actor: 'personal_token', client: `token:${record.prefix}` };
      },
      verifyOidcToken: createOidcTokens({ findPerson: (identity) => findPersonOf(database, identity), clock }),
    },
    projectsOf: people.members.projectsOf,
    tools: [
      ...createMemorySettingsTools({
        readSettings: memory.settings.read,
        readLastChange,
        changeSettings,
        previewRetention: (projectId, { delete_conversations_after_days: days, delete_unlearned: unlearned }, at) =>
          previewRetention({ database, clock: { now: () => at } }, projectId, days, unlearned),
        clock,
      }),
      createSearchMemoryTool({
        searchMemory: (projectId, request) => readStored(() => memory.searchAs(backgroundCaller(projectId), request), projectId),
      }),
      createUsageTool({ getUsage }),
      createExplainCallTool({
        findCall: (projectId, id) => readStored(() => findCall(database, projectId, id), projectId),
        findRefused: (projectId, id) => findRefused(database, projectId, id),
      }),
      createBatchesTool({ listBatches: learning.batches.list }),
    ],
    bodyShares,
    clock,
    logger,
  });
}
