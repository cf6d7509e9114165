// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
// Shows the desktop of a session by noVNC, which Debian's package brings. Every key goes to the
// desktop, Tab included, once its screen has the focus.

import RFB from "/novnc/core/rfb.js";

const AGAIN_MS = 2000;
const screen = document.getElementById("screen");

function say(text, bad = false) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.className = bad ? "bad" : "";
}

async function connect() {
  let port;
  try {
    const answer = await fetch("/desktop/port");
    const said = await answer.json();
    if (!answer.ok) return say(said.what, true);
    port = said.port;
  } catch {
    say("No answer. Is the session still running?", true);
    return setTimeout(connect, AGAIN_MS);
  }
  const viewer = new RFB(screen, `ws://${location.hostname}:${port}/`);
  viewer.scaleViewport = true;
  viewer.addEventListener("connect", () => {
    say("Connected");
    viewer.focus();
  });
  viewer.addEventListener("credentialsrequired", () => {
    viewer.sendCredentials({ password: window.prompt("The desktop's password") ?? "" });
  });
  viewer.addEventListener("disconnect", () => {
    say("The connection is lost. Trying again", true);
    setTimeout(connect, AGAIN_MS);
  });
}

connect();
