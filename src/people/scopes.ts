/** What a token of a person may do through MCP. Sessions of the console have no scopes: the role decides there. */

export const scopes = ['settings:read', 'settings:write', 'memory:read', 'usage:read'] as const;

export type Scope = (typeof scopes)[number];

export const scopeDescriptions: Readonly<Record<Scope, string>> = {
  'settings:read': 'read memory settings',
  'settings:write': 'change memory settings',
  'memory:read': 'search memories and conversations',
  'usage:read': 'read spend, calls and learning batches',
};

/** The scopes of a list of names; unknown names are ignored. */
export function toScopes(names: readonly string[]): Scope[] {
  return scopes.filter((scope) => names.includes(scope));
}
