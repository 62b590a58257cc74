/**
 * The byte values of JSON's syntax characters. Scanners should copy these into local constants, because V8 loads an
 * imported constant from memory each time. In our measurements that doubled the time of a scan (1.2 instead of 0.6 µs
 * for a string of 900 bytes).
 */
export const characters = {
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  openBracket: 0x5b,
  backslash: 0x5c,
  closeBracket: 0x5d,
  openBrace: 0x7b,
  closeBrace: 0x7d,
} as const;
