# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
# An X server that speaks RFB on 127.0.0.1, and what starts on its screen. The server's end is that of
# the desktop: the agent starts both again.
cd "$HOME" || exit 1
export DISPLAY=:0
(
  until [ -S /tmp/.X11-unix/X0 ]; do sleep 0.1; done
  twm &
  xclock -update 1 -geometry 160x160-16+16 &
  xterm -geometry 80x24+16+16 &
  exec nedit -geometry 80x20+40+400
) &
exec Xvnc :0 -geometry 1024x768 -depth 24 -rfbport 5900 -localhost -SecurityTypes None \
  -AlwaysShared -nolisten tcp -extension GLX -s 0 -ac
