// Browsers give no workers to pages that were opened from a disk. On those, the search runs its worker's script in a hidden
// frame. As between a page and a worker, each side gets a copy of what the other sends: the script changes the query.
if (location.protocol === "file:")
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      this.scope = this.frame.contentWindow
      this.scope.postMessage = data => {
        const copy = structuredClone(data)
        setTimeout(() => this.onmessage?.({ data: copy }))
      }
      const script = this.frame.contentDocument.createElement("script")
      script.src = url
      this.loaded = new Promise(resolve => { script.onload = resolve })
      this.frame.contentDocument.head.append(script)
    }

    postMessage(data) {
      const copy = structuredClone(data)
      this.loaded.then(() => this.scope.onmessage({ data: copy }))
    }

    terminate() {
      this.frame.remove()
    }
  }
