import type { JsonObject } from '../../core/json/narrow.ts';
import { describeErrors } from './contract/error-responses.ts';
import type { OperationSpec } from './contract/operation-spec.ts';
import { parameterRefs, responseHeaderRefs } from './contract/parameters.ts';

const securityByAuth = {
  key: [{ virtualKey: [] }],
  messages: [{ virtualKey: [] }, { messagesKey: [] }],
  admin: [{ adminToken: [] }],
  none: [],
};

export function describeOperation(path: string, spec: OperationSpec): JsonObject {
  const {
    tag,
    summary,
    details,
    auth,
    errorStyle,
    parameters: otherParameters = [],
    body,
    responses,
    description = summary,
    headers = [],
    codes,
    plain = [],
  } = spec;
  const described = Object.entries(responses).map(([status, response]) => [
    status,
    {
      description,
      ...(headers.length > 0 && { headers: responseHeaderRefs(headers) }),
      content: typeof response === 'string' ? jsonContent(response) : response,
    },
  ]);
  const parameters = [...parametersInPath(path), ...otherParameters];
  const style = errorStyle ?? (auth === 'messages' ? 'messages' : 'chat');
  const errorHeaders = headers.filter((name) => name.endsWith('-id'));
  return {
    tags: [tag],
    summary,
    description: details,
    security: securityByAuth[auth],
    ...(parameters.length > 0 && { parameters: parameterRefs(parameters) }),
    ...(body && { requestBody: { required: body.optional !== true, content: schemaContent(body) } }),
    responses: { ...Object.fromEntries(described), ...describeErrors({ style, codes, plain, headers: errorHeaders }) },
  };
}

/**
 * Returns the names of the parameters in a path, except for ids. What an id stands for depends on the operation, so
 * each operation lists its own.
 */
function parametersInPath(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].flatMap(([, name = '']) => (name === 'id' ? [] : [name]));
}

export function jsonContent(name: string): JsonObject {
  return schemaContent({ name });
}

function schemaContent({ name, mediaType, example }: NonNullable<OperationSpec['body']>): JsonObject {
  return {
    [mediaType ?? 'application/json']: { schema: { $ref: `#/components/schemas/${name}` }, ...(example !== undefined && { example }) },
  };
}
