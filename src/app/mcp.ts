/**
 * Loads `/mcp` on the first request, because the SDK takes 0.4 s and 40 MB (measured) that most deployments would
 * waste.
 */
import type { McpEndpoint } from '../mcp/endpoint.ts';
import type { McpDeps } from './mcp-endpoint.ts';

export function createMcp(deps: McpDeps): McpEndpoint {
  let loading: Promise<McpEndpoint> | null = null;
  const load = (): Promise<McpEndpoint> => {
    loading ??= import('./mcp-endpoint.ts').then(({ createConnectedEndpoint }) => createConnectedEndpoint(deps));
    return loading;
  };
  return {
    serve: async (request, response) => (await load()).serve(request, response),
    sendMetadata: async (request, response) => (await load()).sendMetadata(request, response),
    close: async () => (await loading)?.close(),
  };
}
