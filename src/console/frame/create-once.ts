/** Remembers what `create` returns for each key, e.g. `Intl` formats, which take much longer to create than to use. */
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
