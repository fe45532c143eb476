import { render } from "preact";
import { App } from "./app";
import { start } from "./state";
import "../../src/glassbert/reports/plots.css";
import "./style.css";
import "./training.css";

render(<App />, document.getElementById("app")!);
void start();
