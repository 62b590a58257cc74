/** Converts operation specifications to OpenAPI operations. */
import type { JsonObject } from '../../core/json/narrow.ts';
import { describeErrors } from './contract/error-responses.ts';
import type { OperationSpec } from './contract/operation-spec.ts';
import { parameterRefs } from './contract/parameters.ts';

const securityByAuth = { key: [{ virtualKey: [] }], admin: [{ adminToken: [] }], none: [] };

/** `[path, method, operation]` of each route. */
export function describeOperations(specs: Readonly<Record<string, OperationSpec>>): [string, string, JsonObject][] {
  return Object.entries(specs).map(([address, facts]) => {
    const [method = '', path = ''] = address.split(' ');
    return [path, method, describeOperation(facts)];
  });
}

function describeOperation({ tag, summary, auth, parameters = [], body, responses, codes, plain = [] }: OperationSpec): JsonObject {
  const described = Object.entries(responses).map(([status, name]) => [
    status,
    { description: summary, content: { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } } },
  ]);
  return {
    tags: [tag],
    summary,
    security: securityByAuth[auth],
    ...(parameters.length > 0 && { parameters: parameterRefs(parameters) }),
    ...(body && {
      requestBody: {
        required: body.optional !== true,
        content: { 'application/json': { schema: { $ref: `#/components/schemas/${body.name}` } } },
      },
    }),
    responses: { ...Object.fromEntries(described), ...describeErrors({ style: 'chat', codes, plain, headers: [] }) },
  };
}
