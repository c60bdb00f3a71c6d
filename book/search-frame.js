// Browsers refuse workers to pages from file://. Here the search, which is one, runs in a frame of the page.
// The theme looks for a class of this name, and then loads its scripts in a frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = this.inner.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = () => failed(new Error(`${source} is not there`));
          this.inner.document.body.append(script);
        });
      this.inner.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = load(new URL(url, document.baseURI).href);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
