/**
 * What a person's token can do through MCP. Console sessions don't have scopes, because they're limited by the person's
 * role.
 */

export const scopes = ['settings:read', 'settings:write', 'memory:read', 'usage:read'] as const;

export type Scope = (typeof scopes)[number];

export const scopeDescriptions: Readonly<Record<Scope, string>> = {
  'settings:read': 'read memory settings',
  'settings:write': 'change memory settings',
  'memory:read': 'search memories and conversations',
  'usage:read': 'read spend, calls and learning batches',
};

/** Returns the scopes whose names are in the list, and ignores unknown names. */
export function toScopes(names: readonly string[]): Scope[] {
  return scopes.filter((scope) => names.includes(scope));
}
