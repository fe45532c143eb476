import { defineConfig } from "vite";

// Addresses are relative: the server mounts the page below a random token.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/glassbert/web",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
