/**
 * Defines tools as data. `defineTool` adds what all tools have in common: the scope, the project, the format of
 * results, and errors without internal details.
 */
import { type McpServer, requireScopes } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { GatewayError } from '../../core/errors.ts';
import { mapDatabaseErrors } from '../../http/database-errors.ts';
import type { Logger } from '../../observability/logger.ts';
import type { Scope } from '../../people/scopes.ts';
import { type Access, chooseProject, type OwnProject, type ProjectsOf } from '../access.ts';

export interface Tool<Input extends z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly scope: Scope;
  readonly isReadOnly: boolean;
  /** True if the tool can delete data. Clients use this to decide whether they ask the person first. */
  readonly isDestructive?: boolean;
  /** The tool's own arguments. `project` is added to every tool. */
  readonly input: Input;
  /** The result, also without `project`. */
  readonly output: z.ZodObject;
  run(input: z.output<Input>, context: ToolContext): Promise<ToolResult>;
}

/** A tool without its input type, so that we can keep tools with different inputs in one list. */
export type AnyTool = Pick<Tool<z.ZodObject>, 'name'> & { register(server: McpServer, session: ToolSession): void };

export interface ToolContext {
  readonly access: Access;
  readonly project: OwnProject;
}

export interface ToolResult {
  readonly output: Readonly<Record<string, unknown>>;
  /** Text that the model gets to read before the JSON output. */
  readonly summary?: string | null;
}

export interface ToolSession {
  readonly access: Access;
  readonly projectsOf: ProjectsOf;
  readonly logger: Logger;
}

const projectInput = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/)
  .optional()
  .describe('The slug of the project. You can omit it if the person has only one project.');

export function defineTool<Input extends z.ZodObject>(tool: Tool<Input>): AnyTool {
  const { name, title, description, scope, isReadOnly, isDestructive = false } = tool;
  const inputSchema = z.strictObject({ project: projectInput, ...tool.input.shape });
  const outputSchema = z.looseObject({ project: z.string().describe('slug'), ...tool.output.shape });
  const annotations = { readOnlyHint: isReadOnly, destructiveHint: isDestructive, idempotentHint: true, openWorldHint: false };
  return {
    name,
    register(server, { access, projectsOf, logger }) {
      const config = { title, description, inputSchema, outputSchema, annotations, scopeChallenge: requireScopes(scope) };
      server.registerTool(name, config, async (args) => {
        try {
          const { project: slug, ...rest } = args as { project?: string };
          const { output, summary } = await mapDatabaseErrors(async () => {
            const project = await chooseProject(projectsOf, access.person, slug);
            const result = await tool.run(tool.input.parse(rest) as z.output<Input>, { access, project });
            return { ...result, output: { project: project.slug, ...result.output } };
          });
          const texts = [...(summary ? [summary] : []), JSON.stringify(output)];
          return { content: texts.map((text) => ({ type: 'text' as const, text })), structuredContent: output };
        } catch (error) {
          return { content: [{ type: 'text' as const, text: publicMessage(error, name, logger) }], isError: true };
        }
      });
    },
  };
}

/**
 * Returns the error message for the client. Only messages of gateway errors are meant for clients. All others are
 * logged instead, because they could contain anything.
 */
function publicMessage(error: unknown, tool: string, logger: Logger): string {
  const isPublic = error instanceof GatewayError;
  if (!isPublic || error.status >= 500) logger.error({ err: (isPublic && error.cause) || error, tool }, 'MCP tool call failed');
  return isPublic ? error.message : 'internal error';
}
