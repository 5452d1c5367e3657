import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    // The pages' policy forbids inline scripts, and a preload helper is not worth its bytes.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: true,
  },
  server: { proxy: Object.fromEntries(["/api", "/kafka", "/health", "/openapi.json"].map((path) => [path, "http://127.0.0.1:8080"])) },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
});
