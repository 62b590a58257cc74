/**
 * Preloaded into jest and the scripts of `run.js`, to stop them if the process that started them dies. Their own child
 * processes may load this too, but it does nothing there because they have a different parent.
 */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
