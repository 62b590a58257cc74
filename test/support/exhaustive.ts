/**
 * True in `npm run test:exhaustive`. Random tests and tables of combinations then run every case instead of a sample.
 */
export const isExhaustive = process.env.GATEWAY_TEST_EXHAUSTIVE === '1';
