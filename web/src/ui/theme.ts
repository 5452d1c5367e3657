// Light, dark, or what the system wants; remembered in this browser.
import { useEffect, useState } from "react";

const STORED = "isthmus-theme";
const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const read = (): Theme => THEMES.find((theme) => theme === localStorage.getItem(STORED)) ?? "system";

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(read);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(STORED, theme);
  }, [theme]);
  const next = (): void => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system");
  return [theme, next];
}
