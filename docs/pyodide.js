// The kernel's worker loads this file as if it were Pyodide. It loads Pyodide itself, from RUNTIME, and tells it of the wheels that lie beside this file (docs/lite.py fills in both names).
const beside = new URL("static/pyodide/", self.location.href.split("/extensions/")[0] + "/");
const runtime = new URL("RUNTIME", beside).href;
importScripts(runtime + "pyodide.js");
const plain = self.loadPyodide;
self.loadPyodide = async (options) => {
  const lock = await (await fetch(runtime + "pyodide-lock.json")).json();
  for (const [name, wheel] of Object.entries("PACKAGES")) lock.packages[name] = {...wheel, file_name: new URL(wheel.file_name, beside).href};
  const lockFileURL = URL.createObjectURL(new Blob([JSON.stringify(lock)], {type: "application/json"}));
  return plain({...options, indexURL: runtime, lockFileURL});
};
