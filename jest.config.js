/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testRunner: '<rootDir>/test/support/native-runner.ts',
  transform: {},
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  reporters: ['default', '<rootDir>/scripts/test-reporter.js'],
  testSequencer: '<rootDir>/scripts/test-sequencer.js',
  modulePathIgnorePatterns: ['<rootDir>/.gateway/', '<rootDir>/dist/'],
  watchman: false,
  // A third of the run is waits for timers and servers, so three workers keep two cores busy.
  maxWorkers: 3,
  // A safety net: a worker with a larger heap is replaced after its test file.
  workerIdleMemoryLimit: '1GB',
  testTimeout: 300_000,
};
