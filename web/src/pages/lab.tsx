/** Experiments: a question, a guess, a run, and what was found. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api";
import { language, t } from "../language";
import { address, param } from "../route";
import { attempt } from "../state";
import { Article, type Result } from "../ui/article";
import { Progress, useWork } from "../ui/work";
import { said, type Words } from "../ui/words";

export interface Experiment {
  name: string;
  question: Words;
  theory: Words;
  settings: { name: string; default: unknown }[];
}

export function useExperiments(): Experiment[] {
  const [list, setList] = useState<Experiment[]>([]);
  useEffect(() => {
    attempt(getJson<Experiment[]>("experiments")).then((found) => found && setList(found));
  }, []);
  return list;
}

export function Lab() {
  const list = useExperiments();
  const chosen = list.find((one) => one.name === param("experiment"));
  return (
    <>
      <h1>{t("page.lab")}</h1>
      <p class="lead">{t("lab.lead")}</p>
      <div class="lab">
        <ul class="list">
          {list.map((one) => (
            <li>
              <a href={address("lab", { experiment: one.name })} aria-current={one === chosen ? "true" : undefined}>
                <code>{one.name}</code> {said(one.question)}
              </a>
            </li>
          ))}
        </ul>
        {chosen && <Run experiment={chosen} key={chosen.name} />}
      </div>
    </>
  );
}

function Run({ experiment }: { experiment: Experiment }) {
  const [guess, setGuess] = useState("");
  const [isAnswered, setIsAnswered] = useState(false);
  const [settings, setSettings] = useState<Record<string, unknown>>({});
  const { work, result, isRunning, run } = useRun(experiment.name);
  return (
    <section class="run">
      <h2>{said(experiment.question)}</h2>
      <form
        class="guess"
        onSubmit={(event) => {
          event.preventDefault();
          setIsAnswered(true);
        }}
      >
        <label>
          {t("lab.guess")}
          <input value={guess} disabled={isAnswered} onInput={(event) => setGuess(event.currentTarget.value)} />
        </label>
        {!isAnswered && (
          <p class="tools">
            <button type="submit" class="primary" disabled={!guess.trim()}>
              {t("lab.keep")}
            </button>
            <button type="button" onClick={() => (setGuess(""), setIsAnswered(true))}>
              {t("lab.skip")}
            </button>
          </p>
        )}
      </form>
      {isAnswered && (
        <>
          <SettingsForm experiment={experiment} onChange={setSettings} />
          <p>
            <button type="button" class="primary" disabled={isRunning} onClick={() => void run(settings)}>
              {isRunning ? t("lab.running") : t("lab.run")}
            </button>
          </p>
        </>
      )}
      <Progress work={work} />
      {result && guess && <p class="hint">{t("lab.guessed", { guess })}</p>}
      {result && <Article result={result} language={language.value} />}
    </section>
  );
}

export function useRun(name: string) {
  const work = useWork<Result>("lab");
  const run = (settings: Record<string, unknown>) => work.run({ name, settings });
  return { work, result: work.found, isRunning: work.share !== null, run };
}

/** A field for each setting, as JSON; only what was changed is sent. */
export function SettingsForm(props: { experiment: Experiment; onChange: (settings: Record<string, unknown>) => void }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [wrong, setWrong] = useState<string[]>([]);
  function change(name: string, written: string): void {
    const next = { ...texts, [name]: written };
    setTexts(next);
    const settings: Record<string, unknown> = {};
    const bad: string[] = [];
    for (const [key, value] of Object.entries(next)) {
      try {
        settings[key] = JSON.parse(value);
      } catch {
        if (typeof props.experiment.settings.find((one) => one.name === key)?.default === "string")
          settings[key] = value;
        else bad.push(key);
      }
    }
    setWrong(bad);
    props.onChange(settings);
  }
  return (
    <details class="settings">
      <summary>{t("lab.settings")}</summary>
      {props.experiment.settings.map((one) => (
        <label>
          <code>{one.name}</code>
          <input
            value={texts[one.name] ?? shown(one.default)}
            aria-invalid={wrong.includes(one.name)}
            onInput={(event) => change(one.name, event.currentTarget.value)}
          />
        </label>
      ))}
    </details>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
