/**
 * Preloaded into jest to stop it when the process that started it dies. It doesn't affect jest's workers, because they
 * have a different parent.
 */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
