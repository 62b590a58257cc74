/**
 * Looks up a name from outside, e.g. from a request or a response. Plain indexing would also find inherited properties,
 * so a caller could get a function by sending a name such as `constructor`.
 */
export function ownValue<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
