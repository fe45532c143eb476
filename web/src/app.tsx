/** The frame around every page: the text under the glass, the pages, language and theme. */
import { useEffect, useState } from "preact/hooks";
import { language, t, type Key } from "./language";
import { Anatomy } from "./pages/anatomy";
import { Attention } from "./pages/attention";
import { Backprop } from "./pages/backprop";
import { Compare } from "./pages/compare";
import { YourData } from "./pages/data";
import { DecoderPage } from "./pages/decoder";
import { Flow } from "./pages/flow";
import { Health } from "./pages/health";
import { Lab } from "./pages/lab";
import { Pretrain } from "./pages/pretrain";
import { Start } from "./pages/start";
import { Why } from "./pages/why";
import { Words } from "./pages/words";
import { address, go, page, PAGES, type Page } from "./route";
import { isBusy, isListed, messageOf, meta, pair, problem, text } from "./state";
import { theme } from "./theme";
import { lazy } from "./ui/lazy";

const VIEWS: Record<Page, () => preact.ComponentChild> = {
  start: Start,
  flow: Flow,
  attention: Attention,
  anatomy: Anatomy,
  backprop: Backprop,
  compare: Compare,
  data: YourData,
  decoder: DecoderPage,
  health: Health,
  lab: Lab,
  pretrain: Pretrain,
  // With the library that draws curves, which no other page needs.
  train: lazy(() => import("./pages/train")),
  why: Why,
  words: Words,
};

export function App() {
  const View = VIEWS[page.value];
  return (
    <>
      <a class="skip" href="#main">
        {t("app.skip")}
      </a>
      <header>
        <a class="brand" href={address("start")}>
          glassbert
        </a>
        <span class="model">{meta.value?.model}</span>
        <TextBox />
        <span class="switches">
          <button type="button" onClick={() => (language.value = language.value === "zh" ? "en" : "zh")}>
            {language.value === "zh" ? "EN" : "中文"}
          </button>
          <button type="button" onClick={() => (theme.value = theme.value === "dark" ? "light" : "dark")}>
            {theme.value === "dark" ? t("theme.light") : t("theme.dark")}
          </button>
        </span>
      </header>
      <nav aria-label={t("app.pages")}>
        {PAGES.filter(isListed).map((one) => (
          <a href={address(one)} aria-current={one === page.value ? "page" : undefined}>
            {t(`page.${one}` as Key)}
          </a>
        ))}
      </nav>
      {problem.value !== null && (
        <p class="problem" role="alert">
          {messageOf(problem.value)}
        </p>
      )}
      {!meta.value && !problem.value && (
        <p class="hint loading" role="status">
          {t("app.loading")}
        </p>
      )}
      <main id="main" tabIndex={-1} aria-busy={isBusy.value}>
        <View />
      </main>
    </>
  );
}

/** The text box; its text becomes part of the address. */
function TextBox() {
  const [first, setFirst] = useState(text.value);
  const [second, setSecond] = useState(pair.value);
  useEffect(() => setFirst(text.value), [text.value]);
  useEffect(() => setSecond(pair.value), [pair.value]);
  function onSubmit(event: Event): void {
    event.preventDefault();
    go({ text: first, pair: second, token: null, cell: null, query: null, key: null });
  }
  return (
    <form onSubmit={onSubmit}>
      <input
        aria-label={t("text.first")}
        placeholder={t("text.first")}
        value={first}
        maxLength={meta.value?.limits.characters}
        onInput={(event) => setFirst(event.currentTarget.value)}
      />
      <input
        class="pair"
        aria-label={t("text.pair")}
        placeholder={t("text.pair")}
        value={second}
        onInput={(event) => setSecond(event.currentTarget.value)}
      />
      <button type="submit">{isBusy.value ? t("text.busy") : t("text.show")}</button>
    </form>
  );
}
