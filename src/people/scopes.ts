/**
 * What a person's token may do through MCP. Console sessions have no scopes, because they're limited by the person's
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

/** Converts names to scopes and ignores unknown names. */
export function toScopes(names: readonly string[]): Scope[] {
  return scopes.filter((scope) => names.includes(scope));
}
