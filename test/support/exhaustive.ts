/** True in `npm run test:exhaustive`: random tests and tables of combinations then run every case, otherwise a sample. */
export const isExhaustive = process.env.GATEWAY_TEST_EXHAUSTIVE === '1';
