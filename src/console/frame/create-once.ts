/**
 * Calls `create` once for each key and remembers the result. We use this e.g. for `Intl` formats, because creating one
 * takes much longer than using it. The results are kept forever, so there can only be a few keys. If a key is the name
 * of a time zone, use `createOncePerZone`.
 */
export function createOnce<Key, Value extends object>(create: (key: Key) => Value): (key: Key) => Value {
  const created = new Map<Key, Value>();
  return (key) => {
    let value = created.get(key);
    if (value === undefined) {
      value = create(key);
      created.set(key, value);
    }
    return value;
  };
}
