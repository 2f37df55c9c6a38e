/** Entry point. */

import { render } from "preact";

import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/cards.css";
import "./styles/stats.css";
import "./styles/charts.css";
import "./styles/forms.css";
import "./styles/messages.css";

import { resume } from "./api";
import { App } from "./app";
import { startState } from "./state";

startState();
void resume();
const root = document.getElementById("app");
if (root) render(<App />, root);
