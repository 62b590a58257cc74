/**
 * Preloaded into jest. It stops jest if the process that has started it dies. Jest's workers also load this, but they
 * have a different parent, so it does nothing there.
 */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
