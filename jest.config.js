import { availableParallelism } from 'node:os';

/**
 * Two more than there are cores, because the slowest tests mostly wait for timers and servers. With four workers on two
 * cores, the cores are still idle for a seventh of the run. But with six of them, the workers slowed each other down: a
 * sample of 45 files took 219 s of CPU time instead of 169 s. A worker and what it starts take up to 1.5 GB.
 */
const workers = Math.max(2, Math.min(availableParallelism() + 2, 8, Math.floor(process.availableMemory() / 1.5e9)));

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  // Otherwise jest would spend a second on listing the files of all dependencies.
  roots: ['<rootDir>/test'],
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testRunner: '<rootDir>/test/support/native-runner.ts',
  transform: {},
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  reporters: ['default', '<rootDir>/scripts/test-reporter.js'],
  testSequencer: '<rootDir>/scripts/test-sequencer.js',
  watchman: false,
  maxWorkers: workers,
  // A safety net: a worker with a larger heap is replaced after its test file.
  workerIdleMemoryLimit: '1GB',
  // Workers of 600 MB that end together on a busy machine can take longer than the default of half a second, and then
  // count as leaking.
  workerGracefulExitTimeout: 10_000,
  // Only ends tests that hang. On a slow machine that also builds Temporal, the longest tests take several minutes.
  testTimeout: 900_000,
};
