#!/bin/sh
# Runs a command of Portico's with the settings of deploy/portico.service, as its user.
#
# 1. Install it once:  install -m 755 /opt/portico/deploy/portico.sh /usr/local/bin/portico
# 2. Run it as root:   sudo portico users list
#
# It runs in /etc/portico. So give files by their whole path, in directories that the user portico may use, or as `-` where a
# command takes that.
exec systemd-run --quiet --collect --pipe --wait --uid=portico --gid=portico --working-directory=/etc/portico \
    -p ConfigurationDirectory=portico -p StateDirectory=portico -p StateDirectoryMode=0700 -p UMask=0077 \
    -p EnvironmentFile=-/etc/portico/portico.env -E PORTICO_DATA=/var/lib/portico \
    /opt/portico/.venv/bin/portico "$@"
