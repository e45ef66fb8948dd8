// The WebSocket to the run: it connects again when it is lost, and asks for the curves after each connection.

/**
 * @typedef {{on: (message: any) => void, state: (text: string) => void}} Listener
 */

const kRetryMs = [250, 500, 1000, 2000];

class Connection {
  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    this.failures = 0;
    this.open();
  }

  open() {
    this.socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/stream");
    this.socket.onmessage = (event) => {
      this.failures = 0;
      this.listener.on(JSON.parse(event.data));
    };
    this.socket.onopen = () => this.listener.state("live");
    this.socket.onclose = () => {
      this.listener.state("lost");
      setTimeout(() => this.open(), kRetryMs[Math.min(this.failures++, kRetryMs.length - 1)]);
    };
  }

  /** @param {object} request */
  send(request) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(request));
  }
}
