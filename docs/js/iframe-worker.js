// Browsers refuse workers to pages that were opened from a disk. There the search runs its worker's script in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      this.scope = this.frame.contentWindow
      this.scope.postMessage = data => setTimeout(() => this.onmessage?.({ data }))
      const script = this.frame.contentDocument.createElement("script")
      script.src = url
      this.loaded = new Promise(resolve => { script.onload = resolve })
      this.frame.contentDocument.head.append(script)
    }

    postMessage(data) {
      this.loaded.then(() => this.scope.onmessage({ data }))
    }

    terminate() {
      this.frame.remove()
    }
  }
