/** One step of training by hand, line by line: forward, back, update; then the gradients of the real model. */
import { useEffect, useState } from "preact/hooks";
import { language, t } from "../language";
import { Article } from "../ui/article";
import { Network } from "../ui/network";
import { said } from "../ui/words";
import { Gradients } from "./gradients";
import { SettingsForm, useExperiments, useRun } from "./lab";

const BEAT_MS = 900;

export function Backprop() {
  const experiment = useExperiments().find((one) => one.name === "backprop");
  const [settings, setSettings] = useState<Record<string, unknown>>({});
  const { result, isRunning, run } = useRun("backprop");
  const [shown, setShown] = useState(1);
  const [isPlaying, setIsPlaying] = useState(false);
  const lines = result?.steps.flatMap((steps) => steps.lines.map((line) => ({ title: steps.title, line }))) ?? [];
  const current = Math.min(shown, lines.length);
  useEffect(() => {
    if (experiment) void run({});
  }, [experiment?.name]);
  useEffect(() => {
    if (!isPlaying) return;
    if (current >= lines.length) return setIsPlaying(false);
    const timer = setTimeout(() => setShown(current + 1), BEAT_MS);
    return () => clearTimeout(timer);
  }, [isPlaying, current, lines.length]);
  if (!experiment) return <h1>{t("page.backprop")}</h1>;
  function play(): void {
    if (!isPlaying && current === lines.length) setShown(1);
    setIsPlaying(!isPlaying);
  }
  return (
    <>
      <h1>{t("page.backprop")}</h1>
      <p class="lead">{said(experiment.question)}</p>
      <SettingsForm experiment={experiment} onChange={setSettings} />
      <p class="tools">
        <button type="button" class="primary" disabled={isRunning} onClick={() => void run(settings)}>
          {isRunning ? t("lab.running") : t("backprop.compute")}
        </button>
        <button type="button" disabled={current <= 1} onClick={() => setShown(current - 1)}>
          {t("backprop.back")}
        </button>
        <button type="button" disabled={current >= lines.length} onClick={() => setShown(current + 1)}>
          {t("backprop.next")}
        </button>
        <button type="button" onClick={() => setShown(lines.length)}>
          {t("backprop.all")}
        </button>
        <button type="button" aria-pressed={isPlaying} onClick={play}>
          {isPlaying ? t("backprop.stop") : t("backprop.play")}
        </button>
        <output>
          {current} / {lines.length}
        </output>
      </p>
      <Network lines={lines.slice(0, current).map(({ line }) => said(line))} />
      <pre class="arithmetic" tabIndex={0} aria-live="polite">
        {lines.slice(0, current).map(({ title, line }, place) => (
          <>
            {(place === 0 || lines[place - 1]!.title !== title) && <b>{said(title)}</b>}
            <div class={place === current - 1 ? "newest" : ""}>{said(line)}</div>
          </>
        ))}
      </pre>
      {result && current === lines.length && <Article result={{ ...result, steps: [] }} language={language.value} />}
      <Gradients />
    </>
  );
}
