/** Preloaded into jest: ends it when the process that started it is gone. Jest's own workers have another parent and are left alone. */
if (process.env['GATEWAY_BOOTSTRAP_IPC'] === String(process.ppid) && process.channel) {
  process.on('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}
