import { expect, test } from '@jest/globals';
import { parseDeb822, parseOneLine, sourceListFor } from './apt-sources.ts';

const expected = `types: deb-src
uris: http://mirror.example/debian
suites: trixie
components: main
signed-by: /usr/share/keyrings/debian-archive-keyring.gpg
`;

test('adds a newer Debian suite from the archive that the machine already uses', () => {
  const sources = parseDeb822(`Types: deb
# a comment
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
`);
  expect(sourceListFor('trixie', sources)).toBe(expected);
});

test('reads the older one-line format', () => {
  const sources = parseOneLine(`# deb http://old.example/debian bookworm main
deb https://packages.example/apt vendor-bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main contrib # main
`);
  expect(sourceListFor('trixie', sources)).toBe(expected);
});

test("keeps an archive's key unchanged if the source list contains it", () => {
  const [source] = parseDeb822(`Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
`);
  expect(source?.options['signed-by']).toBe('\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----');
});

test("skips disabled archives and archives that don't belong to Debian", () => {
  const disabled = parseDeb822('Types: deb\nEnabled: no\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n');
  const others = parseOneLine(
    'deb http://apt.example/pub bookworm-pgdg main\ndeb http://mirror.example/debian-security bookworm-security main\n',
  );
  expect(sourceListFor('trixie', [...disabled, ...others])).toBeNull();
});
