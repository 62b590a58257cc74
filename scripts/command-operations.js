/**
 * Extracts what the commands in `src/cli` have to know about the API, i.e. the operations under `/provision` with a
 * flat list of their query parameters and body fields. It would take a command too long to build the whole API
 * description, so `write-openapi.js` writes the result to `src/cli/api-operations.json`.
 */

/** @typedef {{ [name: string]: any }} Json */

/** @param {Json} document the description of the API */
export function describeCommandOperations(document) {
  /** @param {Json} part @returns {Json} */
  const resolve = (part) =>
    part.$ref === undefined
      ? part
      : resolve(
          part.$ref
            .split('/')
            .slice(1)
            .reduce((/** @type {Json} */ at, /** @type {string} */ key) => at[key], document),
        );
  /** @param {Json} content @param {string} type */
  const schemaOf = (content, type) => resolve(resolve(content ?? {})?.content?.[type]?.schema ?? {});

  /** @param {Json} operation */
  const describe = ({ summary, parameters = [], requestBody, responses }) => {
    const body = schemaOf(requestBody, 'application/json');
    const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
    const query = parameters
      .map(resolve)
      .filter((/** @type {Json} */ parameter) => parameter.in === 'query')
      .map((/** @type {Json} */ { name, schema, description }) => ({ ...describeMember(name, { ...schema, description }), in: 'query' }));
    return {
      summary,
      ...(schemaOf(success, 'application/json').properties?.data !== undefined && { list: true }),
      ...(Object.keys(body).length > 0 && { body: true }),
      members: [...query, ...membersOf('', body)],
    };
  };

  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    path.startsWith('/provision') ? Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, describe(operation)]) : [],
  );
  return Object.fromEntries(operations);
}

/**
 * Lists the fields of a request body. Nested fields have names like `ceilings.calls`.
 * @param {string} prefix
 * @param {Json} schema
 * @returns {Json[]}
 */
function membersOf(prefix, schema) {
  return Object.entries(withoutNull(schema).properties ?? {}).flatMap(([name, member]) => {
    const { properties } = withoutNull(member);
    const nested = Object.keys(properties ?? {}).length > 0;
    return nested ? membersOf(`${prefix}${name}.`, member) : [describeMember(`${prefix}${name}`, member)];
  });
}

/** @param {string} name @param {Json} schema @returns {Json} */
function describeMember(name, schema) {
  const { type, enum: values, format, items, additionalProperties, minimum, maximum } = withoutNull(schema);
  const isNullable = schema.anyOf?.some((/** @type {Json} */ { type }) => type === 'null') || schema.type?.includes?.('null');
  const kinds = {
    choice: values !== undefined,
    time: format === 'date-time',
    boolean: type === 'boolean',
    number: type === 'integer' || type === 'number',
    list: type === 'array' && items.type === 'string',
    lists: type === 'object' && additionalProperties?.type === 'array',
    json: type === 'object' || type === 'array',
    text: true,
  };
  return {
    name,
    kind: Object.entries(kinds).find(([, applies]) => applies)?.[0],
    ...(type === 'integer' && { integer: true }),
    ...(minimum !== undefined && { minimum }),
    // Every integer schema gets this maximum by default, so it isn't worth listing.
    ...(maximum !== undefined && maximum !== Number.MAX_SAFE_INTEGER && { maximum }),
    ...(isNullable && { nullable: true }),
    ...((values ?? items?.enum) && { values: values ?? items.enum }),
    ...(schema.description && { description: schema.description }),
  };
}

/** @param {Json} schema @returns {Json} */
function withoutNull(schema) {
  const [first] = schema.anyOf?.filter((/** @type {Json} */ { type }) => type !== 'null') ?? [];
  return { ...schema, ...first, type: [first?.type ?? schema.type].flat().find((type) => type !== 'null') };
}
