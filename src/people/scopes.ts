/**
 * Scopes limit what a personal token can do through MCP. Console sessions have no scopes, because the person's role
 * limits them.
 */

export const scopes = ['settings:read', 'settings:write', 'memory:read', 'usage:read'] as const;

export type Scope = (typeof scopes)[number];

export const scopeDescriptions: Readonly<Record<Scope, string>> = {
  'settings:read': 'read memory settings',
  'settings:write': 'change memory settings',
  'memory:read': 'search memories and conversations',
  'usage:read': 'read spend, calls and learning batches',
};

export function toScopes(names: readonly string[]): Scope[] {
  return scopes.filter((scope) => names.includes(scope));
}
