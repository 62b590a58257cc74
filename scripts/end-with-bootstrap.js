/**
 * Preloaded into jest, to stop it if the process that started it dies. Jest's own workers load this too, but it does
 * nothing there because they have a different parent.
 */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
