/** Run by `npm test` (scripts/test.js), which gives Node the flag that ES modules need in jest. */

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2024', parser: { syntax: 'typescript' } },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  reporters: ['default', '<rootDir>/scripts/counts-reporter.js'],
  modulePathIgnorePatterns: ['<rootDir>/.gateway/', '<rootDir>/dist/'],
  watchman: false,
  // Tests run whole services with a database and a Temporal server; more at once only wait for each other.
  maxWorkers: 2,
  // Modules of a test file stay in the memory of its worker (the price of ES modules in jest): after this much a new one takes over.
  workerIdleMemoryLimit: '1GB',
  testTimeout: 300_000,
};
